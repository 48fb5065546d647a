"""Which of the ranks on this machine ended first.

When one has died mpiexec ends the others, and on a busy machine its report may name one of those.
"""

import os
import select
import threading
from collections.abc import Sequence

import psutil


class FirstDeath(threading.Thread):
    """Waits, without using the processor, for the first of these processes to end; `pid` is then set.

    However late it wakes up: the kernel keeps the ends in their order. It stays None while all live, and
    where the system has no pidfd.
    """

    def __init__(self, processes: Sequence[psutil.Process]):
        super().__init__(name="labkit-first-death", daemon=True)
        self.pid: int | None = None
        self._of = _descriptors(processes)
        if self._of:
            self._ends = select.epoll()
            for descriptor in self._of:
                self._ends.register(descriptor, select.EPOLLIN)
            self.start()

    def run(self) -> None:
        [(first, _)] = self._ends.poll(maxevents=1)  # the head of the kernel's list; `poll` has no order
        self.pid = self._of[first]
        self._ends.close()
        for descriptor in self._of:
            os.close(descriptor)


def _descriptors(processes: Sequence[psutil.Process]) -> dict[int, int]:
    """A pidfd for each; none at all if one cannot be had."""
    found: dict[int, int] = {}
    try:
        for process in processes:
            found[os.pidfd_open(process.pid)] = process.pid
            if not process.is_running():  # the number may be another's by now
                raise ProcessLookupError(process.pid)
    except (AttributeError, OSError):
        for descriptor in found:
            os.close(descriptor)
        return {}
    return found
