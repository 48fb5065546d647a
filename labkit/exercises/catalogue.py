"""All lessons' predictions, exercises and questions, by name: labkit's, or those of a teacher's course."""

import difflib
import reprlib
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from labkit import LabError
from labkit.exercises import course
from labkit.exercises.describe import Exercise, Lesson, Prediction, Question

T = TypeVar("T")
LABKITS: tuple[Lesson, ...] = tuple(
    import_module(f"labkit.exercises.lessons.{path.stem}").LESSON
    for path in sorted(Path(__file__).with_name("lessons").glob("lesson_*.py"))
)
COURSE = course.current()
LESSONS = COURSE.lessons(LABKITS) if COURSE else LABKITS


def exercise_named(name: str) -> Exercise:
    """The exercise whose function has this name. LabError names what is spelled alike."""
    return _find("an exercise", name, {e.name: e for lesson in LESSONS for e in lesson.exercises})


def prediction_named(name: str) -> Prediction:
    """The prediction of this name. LabError names what is spelled alike."""
    return _find("a prediction", name, {p.name: p for lesson in LESSONS for p in lesson.predictions})


def question_named(name: str) -> Question:
    """The question of this name, such as "02.1". LabError names what is spelled alike."""
    return _find("a question", name, {n: q for lesson in LESSONS for n, q in lesson.named_questions.items()})


def _find(what: str, name: object, there: dict[str, T]) -> T:
    if not isinstance(name, str) or name not in there:
        near = difflib.get_close_matches(name, there) if isinstance(name, str) else []
        fix = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"as its cell writes it, such as {next(iter(there))}"
        )
        raise LabError(f"{what} named {reprlib.repr(name)}", "there is none", fix)
    return there[name]
