"""All lessons' predictions, exercises and questions, by name: labkit's, or those of a teacher's course."""

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
    """The exercise whose function has this name. LabError lists those there are."""
    return _find("an exercise", name, {e.name: e for lesson in LESSONS for e in lesson.exercises})


def prediction_named(name: str) -> Prediction:
    """The prediction of this name. LabError lists those there are."""
    return _find("a prediction", name, {p.name: p for lesson in LESSONS for p in lesson.predictions})


def question_named(name: str) -> Question:
    """The question of this name, such as "02.1". LabError lists those there are."""
    return _find("a question", name, {n: q for lesson in LESSONS for n, q in lesson.named_questions.items()})


def _find(what: str, name: object, there: dict[str, T]) -> T:
    if not isinstance(name, str) or name not in there:
        asked = reprlib.repr(name)
        raise LabError(f"{what} named {asked}", "there is none", f"one of {', '.join(there)}")
    return there[name]
