"""What a lesson asks of its reader, as data: predictions, exercises with limits, questions.

Nothing here runs. `check` grades an exercise, a test tries wrong answers and the solution on the same
description. A lesson's file imports torch only where it draws data: a notebook that is asked for a number
need not wait for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
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
    learner is told who is above it. `least`, where there is one, is what the work cannot be done with less
    of, and `too_little` is said to who is below it.
    """

    measure: str
    most: Callable[[Arguments], float]
    why: str
    least: Callable[[Arguments], float] | None = None
    too_little: str = ""


def returned(arguments: tuple, result: Any) -> Any:
    """What a function returned: the usual answer."""
    return result


def called(function: Callable[..., Any], arguments: tuple) -> Any:
    """Call it with the rank's arguments: the usual way to use what the learner wrote."""
    return function(*arguments)


def in_place(arguments: tuple, result: Any) -> Any:
    """The first argument after the call: the answer of a function that works in place."""
    return arguments[0]


@dataclass(frozen=True)
class Exercise:
    """A function, or a class, that the learner writes in a %%px cell, on every rank.

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
    """Names of labkit.algorithms, or in its files, that answers call: "shard", "parameter_server.receive"."""
    becomes: str = ""
    """The name by which later cells call it: after a check the learner's if it is right, labkit's if not."""
    changes: tuple[str, ...] = ()
    """Parameters whose values the function is to change; of a module its weights, never its gradients."""
    use: Callable[[Any, tuple], Any] = called
    """How a rank uses what the learner wrote, where that is a class, or what only a server does."""
    calls: int = 1
    """How often `use` calls it, each time alike; limits are of what one call takes."""

    @property
    def name(self) -> str:
        """The function's name, by which `check`, `hint` and `solution` know the exercise."""
        return self._written.name

    @property
    def call(self) -> str:
        """How it is called, "swap(mine)"; of a class its name."""
        written = self._written
        return (
            written.name
            if isinstance(written, ast.ClassDef)
            else f"{written.name}({ast.unparse(written.args)})"
        )

    @property
    def whole(self) -> bool:
        """Whether the stub is a whole program, with a bug to find, and nothing is left out of it."""
        return "your code" not in self.stub

    @property
    def head(self) -> str:
        """The line above its body: "def swap(mine):"."""
        written = self._written
        bare = next(line for line in self.stub.splitlines() if f" {written.name}(" in line)
        return bare.partition("  #")[0]

    @property
    def imports(self) -> list[str]:
        """The statements that bring what answers call, as `uses` names it."""
        placed = (f"labkit.algorithms.{used}".rpartition(".") for used in self.uses)
        return [f"from {module} import {name}" for module, _, name in placed]

    @property
    def untouched(self) -> dict[int, str]:
        """The arguments that it must leave as they were: their names by their places."""
        written = self._written
        methods = written.body if isinstance(written, ast.ClassDef) else [written]
        named = [a.arg for method in methods if isinstance(method, ast.FunctionDef) for a in method.args.args]
        names = [name for name in named if name != "ctx"]
        mine = {*self.changes, *(names[:1] if self.answer is in_place else ())}
        return {place: name for place, name in enumerate(names) if name not in mine}

    @cached_property
    def _written(self) -> ast.FunctionDef | ast.ClassDef:
        kinds = ast.FunctionDef | ast.ClassDef
        return next(node for node in ast.parse(self.stub).body if isinstance(node, kinds))


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
