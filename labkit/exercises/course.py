"""A course of a teacher's own: which lessons, some that labkit has not, their data set and rank count.

    title = "Gradients in one afternoon"
    lessons = ["00", "03", "30_weigh_the_shards.ipynb"]
    ranks = 3              # what labkit.start() means, where a lesson names no count
    data = "data.py"       # its digits() or clicks() in place of labkit.algorithms.data's

A lesson of one's own is a notebook beside the course's file, and what it asks is in lesson_30.py there.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from labkit import LabError
from labkit.exercises.describe import Lesson

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # JupyterLab brings it there

COURSE = "LABKIT_COURSE"
"""Where the course's file is, for every process of a lab."""
DATA = "LABKIT_DATA"
"""Where its data set is, which labkit.algorithms.data reads."""
_KEYS = {"title", "lessons", "ranks", "data"}


@dataclass(frozen=True)
class Course:
    """What the file says. `numbers` are of all its lessons in their order, `own` the notebooks beside it."""

    file: Path
    title: str
    numbers: tuple[str, ...]
    own: tuple[Path, ...] = ()
    ranks: int | None = None
    data: Path | None = None

    def environment(self) -> dict[str, str]:
        """By what every process that is begun from here on knows it."""
        ranks = {"LABKIT_RANKS": str(self.ranks)} if self.ranks else {}
        return {COURSE: str(self.file)} | ranks | ({DATA: str(self.data)} if self.data else {})

    def lessons(self, ours: tuple[Lesson, ...]) -> tuple[Lesson, ...]:
        """Its lessons, of labkit's and of its own. LabError if one is missing, or a name comes twice."""
        there = {lesson.number: lesson for lesson in ours}
        there |= {path.name[:2]: _described(path) for path in self.own}
        if missing := [number for number in self.numbers if number not in there]:
            fix = f"one of {', '.join(lesson.number for lesson in ours)}, or a notebook beside the file"
            raise self._error(f"there is no lesson {missing[0]}", fix)
        found = tuple(there[number] for number in self.numbers)
        names = [exercise.name for lesson in found for exercise in lesson.exercises]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise self._error(f"two exercises are called {twice}", "call yours something else")
        return found

    def _error(self, found: str, fix: str) -> LabError:
        return LabError(f"the course in {self.file.name}", found, fix)


def current() -> Course | None:
    """The course that this process belongs to, if any."""
    return read(Path(os.environ[COURSE])) if os.environ.get(COURSE) else None


def read(file: Path) -> Course:
    """The course in a file. LabError if it makes none."""
    file = file.resolve()
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            f"the course in {file.name}", f"it cannot be read ({error})", "mend the file"
        ) from None
    course = Course(file, "", ())
    if unknown := sorted(told.keys() - _KEYS):
        raise course._error(
            f"it says {unknown[0]}, which no course has", f"one of {', '.join(sorted(_KEYS))}"
        )
    lessons, ranks, data = told.get("lessons"), told.get("ranks"), told.get("data")
    if not isinstance(lessons, list) or not lessons or not all(isinstance(name, str) for name in lessons):
        raise course._error("it names no lessons", 'lessons = ["00", "02"]')
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise course._error(f"ranks = {ranks!r} is no count", "ranks = 4, or leave it out")
    own = tuple(file.parent / name for name in lessons if name.endswith(".ipynb"))
    for path in own:
        if not re.fullmatch(r"\d\d_\w+\.ipynb", path.name):
            raise course._error(f"{path.name} has no number", "call it like 30_weigh_the_shards.ipynb")
    beside = [*own, *(description(path) for path in own), *([file.parent / str(data)] if data else [])]
    if missing := [path.name for path in beside if not path.is_file()]:
        raise course._error(f"{missing[0]} is not beside it", "put it there, or take it out of the course")
    numbers = tuple(name[:2] if name.endswith(".ipynb") else name for name in lessons)
    title = str(told.get("title", file.parent.name))
    return Course(file, title, numbers, own, ranks, file.parent / data if data else None)


def description(notebook: Path) -> Path:
    """The file beside a lesson of one's own that says what it asks."""
    return notebook.with_name(f"lesson_{notebook.name[:2]}.py")


def _described(notebook: Path) -> Lesson:
    """What a lesson of one's own asks: the LESSON of the file beside it. LabError if there is none."""
    file = description(notebook)
    spec = spec_from_file_location(f"labkit_course_{file.stem}", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    lesson = getattr(module, "LESSON", None)
    if not isinstance(lesson, Lesson) or lesson.number != notebook.name[:2]:
        found = f"{file.name} has no LESSON with the number {notebook.name[:2]}"
        raise LabError(f"what {notebook.name} asks", found, "see lessons/lesson_02.py in labkit/exercises")
    return lesson
