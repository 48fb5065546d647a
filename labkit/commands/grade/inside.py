"""Inside a sandbox: one answer on ranks of its own, judged as `labkit.check` does.

The answer runs on the ranks, which are other processes than this one. What this one says goes to a pipe that
none of them has.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from contextlib import suppress

from labkit import LabError, launch
from labkit.exercises import grade, mistake
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Exercise
from labkit.exercises.grade import Verdict
from labkit.lab import cell, remote
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError

PATIENCE = 3
"""How many times as long as in a notebook a call may take: nobody waits, and others may have the cores."""
NOT_DUMPABLE = 4
"""Of prctl: from then on no other process of this user reads or changes this one."""


def main() -> int:
    """Read what to judge from standard input, and write the verdict to standard output."""
    given = json.loads(sys.stdin.buffer.read())
    with os.fdopen(_out_of_reach(), "w") as said:
        _limit(**given["limits"])
        grade.DEADLINE *= PATIENCE
        verdict = judged(exercise_named(given["exercise"]), given["source"])
        name = mistake.name(verdict.text)
        json.dump({"solved": verdict.solved, "told": verdict.text[:4000], "mistake": name}, said)
    os._exit(0)  # the end of the sandbox ends the lab


def judged(exercise: Exercise, source: str) -> Verdict:
    """The verdict on an answer, in a lab as large as its largest world."""
    lab = Lab(launch.plan(max(exercise.sizes)))
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


def _out_of_reach() -> int:
    """Standard output where no other process finds it: not inherited, and this process closed to others."""
    mine, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    return mine


def _limit(memory: int, disk: int, processes: int) -> None:
    """What the kernel itself holds this process and all that it begins to."""
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
