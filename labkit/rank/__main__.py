"""What is started as each rank: its witness, a parent that waits for it and says how it ended.

When a rank is gone the launcher of MPI ends the others, and may name one of those, or none. It learns of it
by a connection that the witness holds too: so what the witness says comes first, and is of the rank itself.
"""

import os
import resource
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from labkit.launch import endings


def main() -> None:
    witness, rank = os.getpid(), os.fork()
    if rank == 0:
        _end_with(witness)
        from labkit.rank import engine

        return engine.main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])
    with suppress(OSError):  # the launcher went first
        os.write(2, f"\n{endings.said(rank, ended)}\n".encode())
    _end_as(ended)


def _end_with(witness: int) -> None:
    """Whoever ends the witness ends this process, however busy it is."""
    if sys.platform == "linux":
        from ctypes import CDLL

        PR_SET_PDEATHSIG = 1
        CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != witness:
        os._exit(1)


def _end_as(ended: int) -> NoReturn:
    """In the same way, for the launcher to see; never well: a rank has no end of its own."""
    if ended < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank has left one
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended or 1)


if __name__ == "__main__":
    main()
