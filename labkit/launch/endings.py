r"""How ranks ended: as a witness says it on standard error, and MPI of a rank that gave up, to be read again.

>>> text = said(71, -9)
>>> first(f"{text}\nlabkit: PID 70 ON b ENDED: 15").how
'Killed (signal 9)'
"""

import os
import re
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass

_WITNESS = (
    r"labkit: PID (?P<pid>\d+) ON (?P<host>\S+) ENDED: (?P<code>-?\d+)(?: AND WROTE: (?P<wrote>[^\n]+))?"
)
_HYDRA = r"Abort\(-?\d+\) on node (?P<hydra>\d+) [^:\n]*: (?P<words>[^\n]+)"  # MPICH and Intel MPI
_PRTE = r"MPI_ABORT was invoked on rank (?P<prte>\d+) in [^\0]{0,400}?[Ee]rrorcode:? (?P<errorcode>-?\d+)"
_CELL = r"labkit: RANK (?P<rank>\d+) CALLED MPI_Abort WITH (?P<given>-?\d+)"
_ENDING = re.compile(f"{_WITNESS}|{_HYDRA}|{_PRTE}|{_CELL}")

_WHAT = "what():"
"""Before the reason, where C++ ends a process for an exception."""
_LONGEST = 300  # characters that are told

NOTED = "log/endings.log"
"""The file in a lab's folder in which ends of ranks are noted that labkit has not ended itself."""


@dataclass(frozen=True)
class Ending:
    """The end of one rank, known by its number or else by its process."""

    how: str
    rank: int = -1
    pid: int = 0
    host: str = ""


def said(pid: int, code: int, last_words: str = "") -> str:
    """What a witness on this host says of a rank; `code` is its exit code, or a signal's below zero."""
    wrote = _reason(last_words)
    ended = f"labkit: PID {pid} ON {socket.gethostname()} ENDED: {code}"
    return f"{ended} AND WROTE: {wrote}" if wrote else ended


def _reason(last_words: str) -> str:
    """The line that says why: that of a C++ exception nobody has caught, or the last."""
    lines = ["".join(c if c.isprintable() else " " for c in line).strip() for line in last_words.splitlines()]
    lines = [line for line in lines if line]
    reasons = [line.removeprefix(_WHAT).strip() for line in lines if line.startswith(_WHAT)]
    return "".join((reasons or lines)[-1:])[:_LONGEST]


def aborts(rank: int, code: int) -> str:
    """What a rank says that is about to end all."""
    return f"labkit: RANK {rank} CALLED MPI_Abort WITH {code}"


def note(said: str) -> None:
    """Where nobody has to carry it: mpiexec may end before it has handed on what was said."""
    with suppress(OSError), open(f"{os.environ['LABKIT_FOLDER']}/{NOTED}", "a") as noted:
        noted.write(f"{said}\n")


def first(log: str) -> Ending | None:
    """The ending that was said first, if any was."""
    found = _ENDING.search(log)
    if not found:
        return None
    if found["pid"]:
        how = _in_words(int(found["code"])) + (f", and wrote: {found['wrote']}" if found["wrote"] else "")
        return Ending(how, pid=int(found["pid"]), host=found["host"])
    if found["hydra"]:
        return Ending(found["words"], rank=int(found["hydra"]))
    code = found["errorcode"] or found["given"]
    return Ending(f"called MPI_Abort with {code}", rank=int(found["prte"] or found["rank"]))


def _in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"{signal.strsignal(-code)} (signal {-code})"
