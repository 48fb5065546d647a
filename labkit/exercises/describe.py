"""What a lesson asks of its reader, as data: predictions, exercises with limits, questions.

Nothing here runs. `check` grades an exercise, a test tries wrong answers and the solution on the same
description. A lesson's file imports torch only where it draws data: a notebook that is asked for a number
need not wait for it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # JupyterLab brings it there

if TYPE_CHECKING:
    import torch

    from labkit.trace import Trace

Arguments = list[tuple]
"""The arguments of every rank's call, in the order of the ranks."""
Values = Callable[[Arguments], list]
"""From those to a value for each rank."""


@dataclass(frozen=True)
class Answers:
    """What the learner's function gave on every rank of one world, for these arguments.

    `expected` is what the solution gave there, for a judge that compares with it; elsewhere it is empty.
    `trace` is what the ranks did, where ranks ran.
    """

    arguments: Arguments
    found: list
    expected: list = field(default_factory=list)
    trace: Trace | None = None

    @property
    def size(self) -> int:
        """The world size."""
        return len(self.arguments)


@dataclass(frozen=True)
class Limit:
    """A budget beside correctness. `measure` is one of labkit.exercises.measure.MEASURES.

    `most` gives the highest value that is allowed, for the arguments of all ranks; `why` is what a
    learner above it is told. `least`, where there is one, is what the work cannot be done with less of, and
    `too_little` is said to whoever is below it.
    """

    measure: str
    most: Callable[[Arguments], float]
    why: str
    least: Callable[[Arguments], float] | None = None
    too_little: str = ""


@dataclass(frozen=True)
class Edit:
    """Another answer to an exercise, as a change of its solution: a wrong one, a right one, or a stub.

    `changes` are pairs of texts: each first one stands in the solution exactly once, and the second one takes
    its place. `body` takes the place of the whole body instead. `says` is what a wrong answer is told: a
    sentence with a full stop explains the values that it gives, and anything else is a part of what a check
    says anyway. `hangs` is a wrong answer that never ends: a check must not run it to recognise it.
    """

    changes: tuple[tuple[str, str], ...] = ()
    body: str = ""
    says: str = ""
    hangs: bool = False

    @property
    def explains(self) -> bool:
        """Whether a check names this mistake to whoever has the values that it gives."""
        return self.says.endswith((".", "?")) and not self.hangs

    def of(self, head: str, solution: str) -> str:
        """The source of this answer. AssertionError if a text to be changed is not there exactly once."""
        if self.body:
            return f"{head}\n{textwrap.indent(self.body, '    ')}\n"
        return edited(solution, *(text for change in self.changes for text in change))


def edited(source: str, *texts: str) -> str:
    """A source in which new texts stand for old ones; they come in pairs: `edited(source, "x.grad", "grad")`.

    AssertionError if an old text is not there exactly once.
    """
    changes = dict(zip(texts[::2], texts[1::2], strict=True))
    for old in changes:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in\n{source}"
    # At once: a new text may hold another one's old text.
    return re.sub("|".join(map(re.escape, changes)), lambda found: changes[found[0]], source)


def algorithm(path: str, name: str = "") -> str:
    """The source of a function or class of labkit.algorithms as a lesson shows it: "ring.all_reduce_ring".

    Without its docstring and types, and by another name if one is given. The file is read and not imported,
    as torch would come with it.
    """
    module, _, called = path.rpartition(".")
    text = Path(__file__).parents[1].joinpath("algorithms", f"{module}.py").read_text(encoding="utf-8")
    whole = next(n for n in ast.parse(text).body if getattr(n, "name", "") == called)
    lines: list[str | None] = list(text.splitlines())
    for node in ast.walk(whole):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines[first.lineno - 1 : first.end_lineno] = [None] * (first.end_lineno - first.lineno + 1)
            if isinstance(node, ast.FunctionDef):
                for argument in ast.walk(node.args):
                    if isinstance(argument, ast.arg):
                        argument.annotation = None
                head = f"{' ' * node.col_offset}def {node.name}({ast.unparse(node.args)}):"
                rest = [None] * (first.lineno - node.lineno - 1)
                lines[node.lineno - 1 : first.lineno - 1] = [head, *rest]
    shown = [line for line in lines[whole.lineno - 1 : whole.end_lineno] if line is not None]
    source = "\n".join(shown).replace(":\n\n", ":\n") + "\n"
    return re.sub(rf"\b{called}\b", name, source) if name else source


def edit(*texts: str, says: str = "", hangs: bool = False) -> Edit:
    """An answer that has other texts than the solution: `edit("send(x.grad", "send(grad")`, or more pairs."""
    assert texts and len(texts) % 2 == 0, "texts come in pairs: the old one, the new one"
    return Edit(tuple(zip(texts[::2], texts[1::2], strict=True)), says=says, hangs=hangs)


def body(text: str, says: str = "", hangs: bool = False) -> Edit:
    """An answer with a body of its own, below the head of the stub."""
    return Edit(body=text, says=says, hangs=hangs)


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
    wrong: tuple[Edit, ...] = ()
    """Wrong answers that are known. Of those that end the check names the one whose values a learner has."""
    limits: tuple[Limit, ...] = ()
    demands: tuple[Callable[[Answers], str], ...] = ()
    """What the text asks of the way beside the values: each says in a sentence what was not done, or ""."""
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

    def answer_of(self, edited: Edit) -> str:
        """The source of another answer to this exercise."""
        return edited.of(self.head, self.solution)

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
    """A possible answer, and what to say to whoever gives it."""

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


def questions(number: str) -> tuple[Question, ...]:
    """The questions of a lesson, "15", as questions.toml beside this file has them."""
    return tuple(
        Question(
            asked["text"],
            tuple(Choice(*choice) for choice in asked["choices"]),
            "abcdef"[[text for text, _ in asked["choices"]].index(asked["right"])],
        )
        for asked in _all_questions()[number]
    )


@cache
def _all_questions() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))


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
