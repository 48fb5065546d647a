"""What a lesson asks of its reader, as data: predictions, exercises with limits, questions.

Nothing here runs. `check` grades an exercise, a test tries wrong answers and the solution on the same
description. A lesson's file imports torch only where it draws data: a notebook that is asked for a number
need not wait for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Arguments = list[tuple]
"""The arguments of every rank's call, in the order of the ranks."""
Values = Callable[[Arguments], list]
"""From those to a value for each rank."""


@dataclass(frozen=True)
class Answers:
    """What the learner's function gave on every rank of one world, for these arguments."""

    arguments: Arguments
    found: list

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.arguments)


@dataclass(frozen=True)
class Limit:
    """A budget beside correctness. `measure` is one of labkit.exercises.measure.MEASURES.

    `most` gives the highest value that is allowed, for the arguments of all ranks; `why` is what a
    learner is told who is above it.
    """

    measure: str
    most: Callable[[Arguments], float]
    why: str


def returned(arguments: tuple, result: Any) -> Any:
    """What a function returned: the usual answer."""
    return result


def in_place(arguments: tuple, result: Any) -> Any:
    """The first argument after the call: the answer of a function that works in place."""
    return arguments[0]


@dataclass(frozen=True)
class Exercise:
    """A function that the learner writes in a %%px cell, on every rank.

    `given(generator, size)` draws the arguments of all ranks of a world of `size` from a
    torch.Generator; every rank draws the same and takes its own. `judge` says in one sentence what is
    wrong with the answers of all ranks, or "". `answer` takes a rank's answer from its arguments after
    the call and from the result: numbers, tensors, and lists and dicts of them. The solution is the
    only one there is: shown on request, and put into the lesson by the tests.
    """

    task: str
    stub: str
    solution: str
    why: str
    hints: tuple[str, ...]
    given: Callable[[torch.Generator, int], Arguments]
    judge: Callable[[Answers], str]
    limits: tuple[Limit, ...] = ()
    sizes: tuple[int, ...] = (2, 3, 4)
    answer: Callable[[tuple, Any], Any] = returned
    uses: tuple[str, ...] = ()
    """Functions of labkit.algorithms that the solution or another answer calls, by name."""
    becomes: str = ""
    """The name by which later cells call it: after a check the learner's if it is right, labkit's if not."""

    @property
    def name(self) -> str:
        """The function's name, by which `check`, `hint` and `solution` know the exercise."""
        return self._function.name

    @property
    def call(self) -> str:
        """How it is called: "swap(mine)"."""
        return f"{self.name}({ast.unparse(self._function.args)})"

    @property
    def _function(self) -> ast.FunctionDef:
        return next(node for node in ast.parse(self.stub).body if isinstance(node, ast.FunctionDef))


@dataclass(frozen=True)
class Prediction:
    """A number that the learner writes down before the experiment; `unit` follows it: "T"."""

    name: str
    unit: str


@dataclass(frozen=True)
class Choice:
    """A possible answer, and what to say to who gives it."""

    text: str
    reason: str


@dataclass(frozen=True)
class Question:
    """A multiple-choice question. `right` is the letter of the right choice; the first is "a"."""

    text: str
    choices: tuple[Choice, ...]
    right: str

    @property
    def lettered(self) -> dict[str, Choice]:
        """The choices by their letters."""
        return dict(zip("abcdef", self.choices, strict=False))


@dataclass(frozen=True)
class Lesson:
    """All that one lesson asks. Questions are named by their place: "02.1" is the first of lesson 02."""

    number: str
    title: str
    predictions: tuple[Prediction, ...]
    exercises: tuple[Exercise, ...]
    questions: tuple[Question, ...] = field(default=())

    @property
    def named_questions(self) -> dict[str, Question]:
        """The questions by their names."""
        return {f"{self.number}.{i}": question for i, question in enumerate(self.questions, 1)}
