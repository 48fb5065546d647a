"""The heart monitor of a lab's controller: one of its threads, quick while ranks come, then seldom heard.

ipyparallel gives it a process of its own. That can end alone: nobody is told, and no rank that comes later
is registered. A rank is registered with the beat after it came, so where ranks come, many beats are needed.
Ranks that are there need none, since labkit watches their processes: a beat would only wake them all up.
"""

import threading
import time

from ipyparallel.controller import app, heartmonitor

SELDOM = 3000
"""Milliseconds between two beats where nobody comes any more, as ipyparallel has it."""
QUICK_FOR = 10.0
"""Seconds without a new rank after which none is expected."""


class _Beating(threading.Thread):
    """A thread where ipyparallel expects a process; it ends with the controller."""

    def terminate(self) -> None:
        pass


class Monitor(heartmonitor.HeartMonitor):
    """Beats every `period` milliseconds while ranks come, else every SELDOM."""

    _latest = 0.0

    def handle_new_hearts(self, hearts: set[bytes]) -> None:
        super().handle_new_hearts(hearts)
        self._latest = time.monotonic()

    def beat(self) -> None:
        super().beat()
        all_here = self.hearts and time.monotonic() - self._latest > QUICK_FOR
        self.caller.callback_time = SELDOM if all_here else self.period


def in_a_thread() -> None:
    """From now on in this process, a controller's."""
    app.Process = _Beating
    heartmonitor.HeartMonitor = Monitor
