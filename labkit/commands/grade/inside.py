"""Inside a sandbox: one answer on ranks of its own, judged as `labkit.check` does.

The answer runs on the ranks, which are other processes than this one. What this one says goes to a pipe that
none of them has.
"""

from __future__ import annotations

import ast
import ctypes
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from labkit import LabError, launch
from labkit.exercises import grade, mistake
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Exercise
from labkit.exercises.grade import Verdict
from labkit.exercises.submission import LONGEST_TOLD
from labkit.lab import cell, remote
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError

PATIENCE = 3
"""How many times as long as in a notebook a call may take: nobody waits, and others may have the cores."""
USUAL = {"torch", "math", "numpy", "random", "time", "functools", "itertools", "collections", "dataclasses"}
UNUSUAL = {"exec", "eval", "compile", "open", "globals", "vars", "setattr", "get_ipython"}
"""What answers import, and what they have no need to call."""
NOT_DUMPABLE = 4
"""Of prctl: from then on no other process of this user reads or changes this one."""


def main() -> int:
    """Read what to judge from standard input, and write the verdict to standard output."""
    given = json.loads(sys.stdin.buffer.read())
    _limit(**given["limits"])
    with os.fdopen(_out_of_reach(), "w") as said:
        grade.DEADLINE *= PATIENCE
        look_at = ", ".join(unusual(given["source"]))
        verdict = judged(exercise_named(given["exercise"]), given["source"])
        text = verdict.text[:LONGEST_TOLD]
        told = {"solved": verdict.solved, "told": text, "mistake": mistake.name(text), "look_at": look_at}
        json.dump(told, said)
    os._exit(0)  # the end of the sandbox ends the lab


def judged(exercise: Exercise, source: str) -> Verdict:
    """The verdict on an answer, in a lab as large as its largest world."""
    try:
        lab = Lab(launch.plan(max(exercise.sizes)))
    except LabError as error:
        return Verdict(f"no lab came up: {error.found}")
    try:
        _run(lab, "\n".join(exercise.imports))
        _run(lab, source)
        return grade.grade(lab, exercise)
    except CellError as error:
        return Verdict(f"not solved yet: {error}")
    except LabError as error:
        return Verdict(f"not solved yet: {error.found}")


def _run(lab: Lab, source: str) -> None:
    outcome = cell.follow(lab, remote.send_cell(lab[:], source), grade.DEADLINE)
    outcome.raise_for_failure()


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


def _out_of_reach() -> int:
    """Standard output where no other process finds it: not inherited, and this process closed to others."""
    mine, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    return mine


def _limit(memory: int, disk: int, processes: int) -> None:
    """What the kernel itself holds this process and all that it begins to; and whom it ends first."""
    with suppress(OSError):  # only Linux has it
        Path("/proc/self/oom_score_adj").write_text("1000")
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    sys.exit(main())
