"""The lessons of the course, as a rule labkit's: copied into a folder without any, put back as they were."""

from __future__ import annotations

import json
import os
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import labkit
from labkit import LabError
from labkit.launch import private

if TYPE_CHECKING:
    from labkit.exercises.course import Course

FILES = "[0-9][0-9]_*.ipynb"
"""How their files are called."""
_INSTALLED = "share/labkit/notebooks/*.ipynb"


def provide(folder: Path, with_outputs: bool = False) -> None:
    """Copy the installed lessons that are missing here, into a folder that is empty or has some of them.

    Without what they gave when they were stored, as a rule: a learner predicts before there is an answer.
    A lesson that is there stays as the learner left it; a folder of other things, or of other notebooks, is
    left alone.
    """
    installed = _installed()
    visible = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if visible and not visible & {source.name for source in installed}:
        return
    for source in installed:
        if source.name not in visible:
            text = source.read_text(encoding="utf-8")
            private.write(folder / source.name, text if with_outputs else _without_outputs(text))


def reset(lesson: Path) -> str:
    """Put a lesson back as before its first run; what was made of it is kept under the returned name."""
    source = next((path for path in _installed() if path.name == lesson.name), None)
    if source is None:
        there = ", ".join(path.name for path in _installed())
        raise LabError(f"{lesson.name} as it was", "it is no lesson of this course", f"one of {there}")
    if source.resolve() == lesson.resolve():
        raise LabError(
            f"{lesson.name} as it was", "this is the lesson itself, in a clone", f"git checkout {lesson}"
        )
    names = (f"my_{lesson.stem}{f'_{number}' if number > 1 else ''}.ipynb" for number in count(1))
    kept = next(name for name in names if not (lesson.parent / name).exists())
    if lesson.exists():
        private.write(lesson.parent / kept, lesson.read_text(encoding="utf-8"))
    private.write(lesson, _without_outputs(source.read_text(encoding="utf-8")))
    return kept


def _without_outputs(text: str) -> str:
    """A notebook as it is before its first run."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _installed() -> list[Path]:
    """The lessons of the course: labkit's own, of which a teacher's may have some, and others beside them."""
    course = current_course()
    if course is None:
        return _labkits()
    there = {path.name[:2]: path for path in [*_labkits(), *course.own]}
    return [there[number] for number in course.numbers if number in there]


def current_course() -> Course | None:
    """The course of a teacher's own that this process belongs to, if any."""
    if not os.environ.get("LABKIT_COURSE"):  # as a rule; then nothing of a lab is imported for it
        return None
    from labkit.exercises import course

    return course.current()


def _labkits() -> list[Path]:
    """The lessons of this installation: from the wheel, or from the clone that it was installed from."""
    clone = Path(labkit.__file__).parents[1] / "notebooks"
    if clone.is_dir():
        return sorted(clone.glob(FILES))
    files = metadata.files("labkit") or ()
    return sorted(Path(file.locate()).resolve() for file in files if file.match(_INSTALLED))
