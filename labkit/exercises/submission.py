"""What a learner hands in: one file of plain text, with answers as they were checked last.

There is nothing in it of who or where the learner is but the name that was given.
"""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from labkit import LabError, __version__
from labkit.exercises.progress_file import read as progress
from labkit.launch import private

T = TypeVar("T")
ENDING = ".labkit.json"
FORMAT = 1
LONGEST = 4 * 2**20
"""Bytes of a file that is read: somebody else has written it."""


LONGEST_TOLD = 2_000
"""Characters of a verdict."""
LONGEST_NAME = 100
"""Characters of a learner's name."""


@dataclass(frozen=True)
class Handed:
    """An answer: its source, and what `labkit.check` said of it."""

    source: str
    solved: bool = False
    told: str = ""


@dataclass(frozen=True)
class Submission:
    """All that one learner hands in."""

    learner: str
    answers: dict[str, Handed]
    predictions: dict[str, float] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def collected(learner: str) -> Submission:
    """What this user's progress has, under that name. LabError if no answer was checked yet."""
    if not _is_name(learner):
        fix = 'labkit submit "Ada Lovelace"'
        raise LabError("to hand in under a name", "a name has 1 to 100 printable letters", fix)
    kept = progress()
    home = re.compile(rf"{re.escape(str(Path.home()))}(?=[/\W]|$)")
    answers = {
        name: Handed(answer["source"], answer["solved"], home.sub("~", answer["told"][:LONGEST_TOLD]))
        for name, answer in kept["answers"].items()
        if answer.get("source")
    }
    if not answers:
        fix = 'run labkit.check("...") below your answers in the lessons'
        raise LabError(f"the answers of {learner}", "none has been checked yet", fix)
    return Submission(learner, answers, kept["predictions"], kept["questions"], _versions())


def _is_name(learner: str) -> bool:
    return bool(learner.strip()) and len(learner) <= LONGEST_NAME and learner.isprintable()


def printable(text: str, most: int = 300) -> str:
    """Other people's text as it can be shown, on a terminal too: on one line, with no sign that acts unseen.

    >>> printable("Ada\\x1b[2J\\nLovelace")
    'Ada\\\\x1b[2J Lovelace'
    """
    line = " ".join(text[: 4 * most].split())
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in ("torch", "numpy", "mpi4py")}
    return {"labkit": __version__, "python": platform.python_version(), **found}


def write(submission: Submission, folder: Path) -> Path:
    """Keep it in that folder, in a file called after the learner, whose earlier one it replaces.

    LabError if a file of that name is something else.
    """
    called = re.sub(r"\W+", "_", submission.learner.lower()).strip("_") or "learner"
    file = folder / f"{called}{ENDING}"
    if file.exists() and _learner_of(file) != submission.learner:
        fix = "hand in under another name, or --into another folder"
        raise LabError(f"{file.name} written into {folder}", "a file of that name is somebody else's", fix)
    content = {"format": FORMAT, **asdict(submission)}
    private.write(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n", mode=0o600)
    return file


def _learner_of(file: Path) -> str | None:
    try:
        return read(file).learner
    except LabError:
        return None


def read(file: Path) -> Submission:
    """What somebody handed in. LabError if it is no such file; whatever it says, nothing of it is run."""
    try:
        with open(file, "rb") as opened:
            told = opened.read(LONGEST + 1)
        if len(told) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} bytes")
        content = json.loads(told, parse_int=float)  # an int of a million digits takes minutes
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {ascii(content['format'])[:20]}, and this labkit reads {FORMAT}")
        learner = _text(content["learner"])
        if not _is_name(learner):
            raise ValueError("a name has 1 to 100 printable letters")
        answers = {_text(name): _handed(answer) for name, answer in content["answers"].items()}
        predictions = _of_kind(float, content.get("predictions", {}))
        questions, versions = (_of_kind(str, content.get(part, {})) for part in ("questions", "versions"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        found = f"it cannot be read ({type(error).__name__}: {printable(str(error), 200)})"
        raise LabError(f"the answers in {file.name}", found, "have it handed in again") from None
    return Submission(learner, answers, predictions, questions, versions)


def _of_kind(kind: type[T], told: dict) -> dict[str, T]:
    return {_text(name): value for name, value in told.items() if isinstance(value, kind)}


def _handed(told: dict) -> Handed:
    return Handed(_text(told["source"]), told["solved"] is True, _text(told["told"])[:LONGEST_TOLD])


def _text(told: object) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{str(told)[:40]!r} is no text")
    told.encode()  # which half a surrogate pair has none of: UnicodeEncodeError, a ValueError
    return told
