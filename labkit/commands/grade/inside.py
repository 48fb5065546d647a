"""Inside a sandbox: one answer on ranks of its own, judged as `labkit.check` does.

The answer runs on the ranks, which are other processes than this one. What is right, and what this one says,
go through a socket that none of them has.
"""

from __future__ import annotations

import json
import os
import secrets
import socket

from labkit import LabError, launch
from labkit.commands.grade import guarded
from labkit.commands.grade.again import CODE
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


def judge(name: str, source: str, channel: socket.socket) -> None:
    """Say on the channel, once, what an answer to that exercise is worth."""

    def tell(solved: bool, called: str, told: str = "", refused: str = "") -> None:
        said = {"solved": solved, "mistake": called, "told": told, "refused": refused}
        channel.sendall(json.dumps(said).encode())

    def refuse(what: str) -> None:
        """At once: whoever says such a thing has said all."""
        tell(False, CODE, refused=f"tells its judge to run {what}")
        os._exit(0)

    guarded.guard(refuse)
    grade.DEADLINE *= PATIENCE
    verdict = judged(exercise_named(name), source)
    text = verdict.text[:LONGEST_TOLD]
    tell(verdict.solved, mistake.name(text), text)


def judged(exercise: Exercise, source: str) -> Verdict:
    """The verdict on an answer, in a lab as large as its largest world."""
    try:
        lab = Lab(launch.plan(max(exercise.sizes)))
    except LabError as error:
        return Verdict(f"no lab came up: {error.found}")
    seed = secrets.randbelow(2**31)
    try:
        known = grade.expected(lab, exercise, seed)  # before the answer can have a say in it
        _run(lab, "\n".join(exercise.imports))
        _run(lab, source)
        return grade.grade(lab, exercise, seed, known)
    except CellError as error:
        return Verdict(f"not solved yet: {error}")
    except LabError as error:
        return Verdict(f"not solved yet: {error.found}")


def _run(lab: Lab, source: str) -> None:
    outcome = cell.follow(lab, remote.send_cell(lab[:], source), grade.DEADLINE)
    outcome.raise_for_failure()
