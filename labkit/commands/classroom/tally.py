"""From what learners share to what a teacher wants to know: how many are where, and what is in their way."""

from __future__ import annotations

import json
import os
import pwd
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.exercises.catalogue import LESSONS
from labkit.exercises.known import is_known
from labkit.exercises.sharing import FILE

LONGEST = 1 << 20
"""Bytes of a learner's file that are read: somebody else has written it."""
NAME = 120
"""Letters of a mistake's name that are shown."""
ANOTHER = "another mistake"
"""What is called so is none of labkit's own names."""


@dataclass(frozen=True)
class Row:
    """One exercise: how many tried it, how many solved it, and the others' mistakes, the frequent first."""

    lesson: str
    exercise: str
    tried: int
    solved: int
    mistakes: tuple[tuple[str, int], ...]


def shared_in(folder: Path) -> list[dict[str, str]]:
    """What each learner shares; what cannot be read is left out.

    An account is one learner, in the folder of its name, whatever other folders it makes. Those of whoever
    looks are all counted: so are the made-up learners of a hub that is tried.
    """
    found: dict[object, dict[str, str]] = {}
    for file in sorted(folder.glob(f"*/{FILE}")):
        read = _read(file)
        if read is not None:
            account, standing = read
            if account == os.geteuid():
                found[file] = standing
            elif _name(account) in ("", file.parent.name):
                found.setdefault(account, standing)
    return list(found.values())


def _name(account: int) -> str:
    """What that account is called; "" if this machine does not know."""
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return ""


def rows(standings: Sequence[Mapping[str, str]]) -> list[Row]:
    """A row for each exercise that somebody has tried, in the order of the course."""
    made = []
    for lesson in LESSONS:
        for exercise in lesson.exercises:
            told = [standing[exercise.name] for standing in standings if exercise.name in standing]
            if told:
                mistakes = Counter(shown(name, exercise.name) for name in told if name)
                ordered = sorted(mistakes.items(), key=lambda item: (-item[1], item[0]))
                solved = sum(not name for name in told)
                made.append(Row(lesson.number, exercise.name, len(told), solved, tuple(ordered)))
    return made


def shown(name: str, exercise: str) -> str:
    """What a class may read on the wall: a learner can call an error anything, and share any name."""
    return name if is_known(name, exercise) else ANOTHER


def page(folder: Path) -> dict[str, Any]:
    """What the page shows; `next` is the mistake that most learners are at, if two or more are."""
    standings = shared_in(folder)
    found = rows(standings)
    most = max(found, key=lambda row: row.mistakes[0][1] if row.mistakes else 0, default=None)
    following = (
        {
            "exercise": most.exercise,
            "lesson": most.lesson,
            "mistake": most.mistakes[0][0],
            "learners": most.mistakes[0][1],
        }
        if most and most.mistakes and most.mistakes[0][1] > 1
        else None
    )
    return {"learners": len(standings), "rows": [asdict(row) for row in found], "next": following}


def _read(file: Path) -> tuple[int, dict[str, str]] | None:
    """Whose it is, and what it says as far as it is what it should be. No link is followed, to nobody's
    file."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != file.parent.lstat().st_uid:
                return None
            told = json.loads(opened.read(LONGEST))["exercises"]
            return about.st_uid, {str(name): str(mistake)[:NAME] for name, mistake in told.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
