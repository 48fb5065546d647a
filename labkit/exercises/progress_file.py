"""What the learner has done, kept in one small file across kernels."""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from IPython import get_ipython
from jupyter_core.paths import jupyter_data_dir

from labkit import LabError
from labkit.lab.display.tables import aligned
from labkit.launch import private

PARTS = ("predictions", "exercises", "hints", "questions", "answers")
"""Numbers predicted, exercises solved, hints seen, letters answered; answers with what was said of them."""


_of_this_kernel: dict[str, dict] = {part: {} for part in PARTS}
"""All that is kept where a notebook is tested: its output must not depend on what somebody did."""


def folder() -> Path:
    """Where progress is kept: LABKIT_PROGRESS, or `labkit` in Jupyter's data folder."""
    return Path(os.environ.get("LABKIT_PROGRESS") or Path(jupyter_data_dir(), "labkit"))


def read() -> dict[str, dict]:
    """All that is kept, every part there. LabError if the file cannot be read."""
    if _is_tested():
        return _of_this_kernel
    path = folder() / "progress.json"
    try:
        kept = json.loads(path.read_text())
        return {part: dict(kept.get(part, {})) for part in PARTS}
    except FileNotFoundError:
        return {part: {} for part in PARTS}
    except (OSError, ValueError, AttributeError) as error:
        found = f"{path} cannot be read ({error})"
        raise LabError("the progress so far", found, "remove that file") from None


@contextmanager
def changed() -> Iterator[dict[str, dict]]:
    """What is kept, to be changed in the block; other kernels wait. LabError if it cannot be written."""
    if _is_tested():
        yield _of_this_kernel
        return
    path = folder() / "progress.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        fix = "set LABKIT_PROGRESS to a folder of yours"
        raise LabError("to keep the progress", f"{path.parent} cannot be written ({error})", fix) from None
    with open(lock) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kept = read()
        yield kept
        try:
            private.write(path, json.dumps(kept, indent=1, sort_keys=True), mode=0o600)
        except LabError as error:
            fix = "make room there, or set LABKIT_PROGRESS to another folder"
            raise LabError("to keep the progress", f"{path} cannot be written ({error.found})", fix) from None


def _is_tested() -> bool:
    """Whether pytest started this kernel, as `pytest --nbval` does."""
    shell = get_ipython()
    return "PYTEST_CURRENT_TEST" in os.environ and getattr(shell, "kernel", None) is not None


@dataclass(frozen=True)
class Standing:
    """How far the learner has come in a lesson: (done, of how many) of each part."""

    number: str
    title: str
    exercises: tuple[int, int]
    predictions: tuple[int, int]
    questions: tuple[int, int]
    touched: bool

    @property
    def done(self) -> bool:
        """Whether every exercise is solved."""
        return self.exercises[0] == self.exercises[1]

    def __str__(self) -> str:
        if self.done:
            return "done"
        return "{} of {} exercises".format(*self.exercises) if self.touched else ""


def standings() -> tuple[Standing, ...]:
    """How far the learner has come in each lesson."""
    from labkit.exercises.catalogue import LESSONS

    kept = read()
    found = []
    for lesson in LESSONS:
        solved = [e.name in kept["exercises"] for e in lesson.exercises]
        said = [p.name in kept["predictions"] for p in lesson.predictions]
        right = [kept["questions"].get(n) == q.right for n, q in lesson.named_questions.items()]
        answered = [n in kept["questions"] for n in lesson.named_questions]
        hinted = [e.name in kept["hints"] for e in lesson.exercises]
        exercises, predictions, questions = ((sum(done), len(done)) for done in (solved, said, right))
        touched = any([*solved, *said, *answered, *hinted])
        found.append(Standing(lesson.number, lesson.title, exercises, predictions, questions, touched))
    return tuple(found)


def to_continue(found: Sequence[Standing]) -> Standing | None:
    """The lesson to go on with: the last that was begun, else the first that follows; None if all is done."""
    begun = [lesson for lesson in found if lesson.touched and not lesson.done]
    last = max((place for place, lesson in enumerate(found) if lesson.touched), default=-1)
    left = [lesson for lesson in [*found[last + 1 :], *found] if not lesson.done]
    return begun[-1] if begun else next(iter(left), None)


def progress() -> None:
    """Print a row per lesson: exercises solved, predictions made, questions answered right; and what is next.

    Kept across kernels, in the folder that LABKIT_PROGRESS names or else in Jupyter's data folder.
    """
    found = standings()
    rows: list[tuple[str, ...]] = [("lesson", "", "exercises", "predictions", "questions")]
    for lesson in found:
        counts = (
            "{} of {}".format(*part) for part in (lesson.exercises, lesson.predictions, lesson.questions)
        )
        rows.append((lesson.number, lesson.title, *counts))
    print(aligned(rows))
    following = to_continue(found)
    print(
        f"\nnext: lesson {following.number}, {following.title}" if following else "\nall exercises are solved"
    )
