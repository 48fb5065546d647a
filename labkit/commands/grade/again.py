"""Every answer of a folder of submissions, judged again, each in a sandbox of its own."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labkit import LabError
from labkit.commands.grade import sandbox, veil
from labkit.commands.grade.sandbox import Ended
from labkit.commands.grade.unusual import unusual
from labkit.commands.grade.walls import MB, Limits
from labkit.exercises import mistake, submission
from labkit.exercises.catalogue import LESSONS, exercise_named
from labkit.exercises.submission import Handed, Submission

PROGRAM = [sys.executable, str(Path(__file__).with_name("begin.py"))]
NUMBER = {exercise.name: lesson.number for lesson in LESSONS for exercise in lesson.exercises}
"""The lesson of each exercise."""
LONGEST = 200
"""Characters of what an answer is called."""
NO_VERDICT = "ends what judges it"
"""What it is called if an answer leaves nobody who could say more."""
CODE = "has its judge run code"
"""What it is called if its ranks tell the process that judges more than data."""
DEAF = 3
"""Answers of one learner that may run until a limit of the sandbox ends them; the others are then not run."""
NOT_RUN = f"not run, after {DEAF} that had to be ended"


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
        name = os.fsencode(file.name).decode(errors="replace")  # some systems' names are not of UTF-8
        try:
            if file.is_symlink() or not file.is_file():
                raise LabError(f"the answers in {name}", "it is no file", "have it handed in again")
            found[name] = submission.read(file)
        except LabError as error:
            broken[name] = error.found
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

    Whichever takes too long or too much beside others is judged once more alone: it may be their doing.
    Whoever hands in answers that hear nothing cannot make all others wait for ever: after DEAF of a file no
    more are run.
    """
    asked = [
        (file, handed.learner, name, handed.answers[name])
        for file, handed in found.items()
        for name in NUMBER
        if name in handed.answers
    ]

    def one(number: int, over: Counter[str]) -> Ended:
        begun(number + 1, len(asked))
        file, _, name, answer = asked[number]
        if over[file] >= DEAF:
            return Ended("", NOT_RUN)
        end = run(bwrap, name, answer.source, limits, hidden)
        over[file] += bool(end.over)
        return end

    with ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(partial(one, over=Counter()), range(len(asked))))
    if at_once > 1:
        over: Counter[str] = Counter()
        again = [first.over or _verdict(first)[1] == mistake.TOO_LONG for first in ended]
        ended = [one(n, over) if again[n] else first for n, first in enumerate(ended)]
    return [_result(*handed, end) for handed, end in zip(asked, ended, strict=True)]


def require_fair(bwrap: str, limits: Limits, hidden: Sequence[Path]) -> None:
    """LabError if not even a right answer is right under these limits: then no verdict says anything."""
    known = next((exercise for lesson in LESSONS for exercise in lesson.exercises), None)
    if known is None:
        return  # a course that asks for none: nothing is judged
    solved, called, _ = _verdict(run(bwrap, known.name, known.solution, limits, hidden))
    if not solved:
        found = f"labkit's own answer to {known.name} is not right here: {called}"
        root = "; for root, let all users read this environment" if os.geteuid() == 0 else ""
        fix = f"see `labkit doctor`; or more --seconds and --memory{root}"
        raise LabError("answers judged again", found, fix)


def run(bwrap: str, exercise: str, source: str, limits: Limits, hidden: Sequence[Path] = ()) -> Ended:
    """What a sandbox says of one answer."""
    held = {"memory": limits.memory * MB, "disk": limits.disk * MB, "processes": limits.processes}
    given = json.dumps({"exercise": exercise, "source": source, "limits": held}).encode()
    return sandbox.run(bwrap, PROGRAM, given + b"\n" + veil.whole(), limits, hidden)


def _result(file: str, learner: str, name: str, answer: Handed, ended: Ended) -> Result:
    told = "" if answer.solved else mistake.name(answer.told)[:LONGEST]
    solved, called, refused = _verdict(ended)
    named = unusual(answer.source, exercise_named(name))
    look_at = ", ".join([*named, *([refused] if refused else [])])
    return Result(file, learner, name, solved, called, answer.solved, told, look_at[:LONGEST])


def _verdict(ended: Ended) -> tuple[bool, str, str]:
    """Whether it is solved, the mistake, and what the walls have refused. What came out may be anything."""
    if ended.over:
        return False, ended.over, ended.over
    try:
        told = json.loads(ended.said)
        solved, called, refused = told["solved"], told["mistake"], told["refused"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False, NO_VERDICT, NO_VERDICT
    if (type(solved), type(called), type(refused)) != (bool, str, str) or solved == bool(called):
        return False, NO_VERDICT, NO_VERDICT
    return solved, called[:LONGEST], refused
