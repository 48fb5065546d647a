"""What this process does for MPI beside its messages: it ends with the other ranks, and keeps MPI moving.

A script in which one rank fails ends on every rank: MPI_Finalize waits for all ranks, and ranks that wait
for one that failed never come.

MPI moves messages only inside its own calls. A receive that has ended here may still owe its sender
an answer; if this rank then computes for a minute the sender, in checked mode, waits a minute, and
looks as if it hung. So in checked mode a thread lends MPI a moment every few milliseconds.
"""

import atexit
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, TypeAlias

from labkit.mpi.wire.runtime import MPI, STARTED_HERE, WORLD
from labkit.mpi.wire.waiting import waits

Hook: TypeAlias = Callable[[type[BaseException], BaseException, TracebackType | None], object]
"""What Python calls with an exception that nobody caught."""

_PERIOD = 0.01  # seconds
_PROBES = 50  # each moves one message on, and takes a microsecond

_code = 0  # of the failure that ends this process


def end_together() -> None:
    """If this rank ends by an exception, or by sys.exit with a code other than 0, end the others too.

    Where somebody else started MPI, as in the ranks of a lab, they decide. Aborting from the hook
    itself would lose the traceback, which torch prints after us: so at exit.
    """
    if STARTED_HERE:
        sys.excepthook = _remember(sys.excepthook)
        sys.exit = _exit
        atexit.register(_abort)


class _Exit(SystemExit):
    """What sys.exit raises. Who catches it may go on; only the interpreter looks from outside any frame."""

    @property
    def code(self) -> str | int | None:  # type: ignore[override]
        code = SystemExit.code.__get__(self)
        if sys._getframe().f_back is None:
            _fail(code)
        return code


def _exit(status: str | int | None = None, /) -> NoReturn:
    """sys.exit, with the difference that the other ranks hear of a failure."""
    raise _Exit(status)


def _remember(report: Hook) -> Hook:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _fail(1)
        report(kind, error, trace)

    return hook


def _fail(code: str | int | None) -> None:
    global _code
    # As the system sees it; a message means 1.
    _code = (code & 0xFF) if isinstance(code, int) else int(code is not None)


def _abort() -> None:
    if _code and not MPI.Is_finalized() and WORLD.size > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(0.3)  # other ranks may be about to print why they failed
        WORLD.Abort(_code)


moving = threading.Lock()
"""Held while the thread that keeps MPI moving is in MPI: what is forked then could never enter it."""


def keep_moving(comm: MPI.Intracomm) -> None:
    """Start the thread, which probes `comm`: not COMM_SELF, where MPICH moves nothing. It ends before MPI."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_PERIOD):
            with moving:
                for _ in range(_PROBES):
                    if waits:  # a wait polls by itself
                        break
                    comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)

    thread = threading.Thread(target=run, name="labkit.mpi", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()

    atexit.register(end)
