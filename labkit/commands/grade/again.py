"""Every answer of a folder of submissions, judged again, each in a sandbox of its own."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from labkit import LabError
from labkit.commands.grade import sandbox
from labkit.commands.grade.sandbox import MB, Ended, Limits
from labkit.exercises import mistake, submission
from labkit.exercises.catalogue import LESSONS
from labkit.exercises.submission import Handed, Submission

PROGRAM = [sys.executable, "-m", "labkit.commands.grade.inside"]
NUMBER = {exercise.name: lesson.number for lesson in LESSONS for exercise in lesson.exercises}
"""The lesson of each exercise."""
NO_VERDICT = "ends what judges it"
"""What it is called if an answer leaves nobody who could say more."""
USUAL = {"torch", "math", "numpy", "random", "time", "functools", "itertools", "collections", "dataclasses"}
UNUSUAL = {"exec", "eval", "compile", "open", "globals", "vars", "setattr", "get_ipython"}


@dataclass(frozen=True)
class Result:
    """One answer: what it is worth now, and what its owner was told. `mistake` is "" if it is right."""

    file: str
    learner: str
    exercise: str
    solved: bool
    mistake: str
    told_solved: bool
    told_mistake: str
    look_at: str = ""

    @property
    def lesson(self) -> str:
        return NUMBER[self.exercise]

    @property
    def agrees(self) -> bool:
        """Whether the learner was told the same."""
        return (self.solved, self.mistake) == (self.told_solved, self.told_mistake)


def submissions(folder: Path) -> tuple[dict[str, Submission], dict[str, str]]:
    """Those of the folder by the names of their files, and what is wrong with the files that are none."""
    found, broken = {}, {}
    for file in sorted(folder.glob(f"*{submission.ENDING}")):
        try:
            if file.is_symlink() or not file.is_file():
                raise LabError(f"the answers in {file.name}", "it is no file", "have it handed in again")
            found[file.name] = submission.read(file)
        except LabError as error:
            broken[file.name] = error.found
    return found, broken


def judged(
    found: dict[str, Submission],
    bwrap: str,
    limits: Limits,
    hidden: Sequence[Path],
    at_once: int = 1,
    begun: Callable[[int, int], None] = lambda number, of: None,
) -> list[Result]:
    """The results in the order of files and lessons; one answer after the other, or so many at once.

    Whichever reaches a limit beside others is judged once more alone: it may have been their doing.
    """
    asked = [
        (file, handed.learner, name, handed.answers[name])
        for file, handed in found.items()
        for name in NUMBER
        if name in handed.answers
    ]

    def one(number: int) -> Ended:
        begun(number + 1, len(asked))
        _, _, name, answer = asked[number]
        return run(bwrap, name, answer.source, limits, hidden)

    with ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(one, range(len(asked))))
    if at_once > 1:
        ended = [one(number) if first.over else first for number, first in enumerate(ended)]
    return [_result(*handed, _verdict(end)) for handed, end in zip(asked, ended, strict=True)]


def run(bwrap: str, exercise: str, source: str, limits: Limits, hidden: Sequence[Path] = ()) -> Ended:
    """What a sandbox says of one answer."""
    held = {"memory": limits.memory * MB, "disk": limits.disk * MB, "processes": limits.processes}
    given = json.dumps({"exercise": exercise, "source": source, "limits": held})
    return sandbox.run(bwrap, PROGRAM, given, limits, hidden)


def _result(file: str, learner: str, name: str, answer: Handed, verdict: tuple[bool, str]) -> Result:
    told = "" if answer.solved else mistake.name(answer.told)
    return Result(file, learner, name, *verdict, answer.solved, told, ", ".join(unusual(answer.source)))


def _verdict(ended: Ended) -> tuple[bool, str]:
    """Whether it is solved, and the mistake. What came out may be anything."""
    if ended.over:
        return False, ended.over
    try:
        told = json.loads(ended.said)
        solved, called = told["solved"], told["mistake"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False, NO_VERDICT
    if not isinstance(solved, bool) or not isinstance(called, str) or solved == bool(called):
        return False, NO_VERDICT
    return solved, called[:200]


def unusual(source: str) -> list[str]:
    """What an answer names and no exercise needs, for somebody to look at; whoever hides it is not found."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(dict.fromkeys(_unusual(nodes)))


def _unusual(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [node.module or "."]
        elif isinstance(node, ast.Name) and (node.id in UNUSUAL or node.id.startswith("__")):
            yield node.id
            continue
        else:
            continue
        for module in named:
            if module.partition(".")[0] not in USUAL and not module.startswith("labkit.algorithms"):
                yield f"import {module}"
