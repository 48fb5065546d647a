"""A small process that starts a spare set of ranks when all is quiet, suspends it, and ends.

It reads orders from standard input, a byte each, and ends when that is closed. It imports ipyparallel
only when it starts, and torch never.
"""

import os
import pickle
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from labkit.launch import Plan, keeper, living

HOLD, GO_ON = b"h", b"g"
READY = "ready"
"""The file in the folder of the spare set that names the suspended processes, once all are."""
LOOK_AFTER = 0.25
"""Seconds between two looks at what was ordered, as long as there is nothing to suspend."""
REST = 2.0
"""Seconds without a cell before a start that was put on hold goes on."""
PATIENCE = 3600.0
"""Seconds that a start may take, which may be on hold for most of them."""


@dataclass(frozen=True)
class Order:
    """What to start, where, for whom (a process identity), beside which pids, and after how much quiet."""

    plan: Plan
    folder: Path
    owner: str
    pids: tuple[int, ...]
    quiet: float


class Hold:
    """Whether cells run; if so, the ranks that have been started so far are suspended."""

    def __init__(self, program: str):
        self._program = program
        self._lock = threading.Lock()
        self._busy, self._since = False, time.monotonic()
        self._suspended: list[psutil.Process] = []
        self._begun = self._over = False

    def quiet_for(self) -> float:
        """Seconds since the last cell ended; 0 while one runs."""
        return 0.0 if self._busy else time.monotonic() - self._since

    def begin(self) -> None:
        """From now on there is something to suspend. To look for it takes as long as a short cell."""
        self._begun = True

    def listen(self) -> None:
        """Obey orders until there can be no more of them."""
        while True:
            if not self._begun:
                time.sleep(LOOK_AFTER)  # who is woken by each cell takes time from it
            if select.select([0], [], [], LOOK_AFTER)[0]:
                words = os.read(0, 1 << 16)
                if not words:
                    os._exit(0)  # the keeper sees to what has been started
                self._busy, self._since = words.endswith(HOLD), time.monotonic()
            with self._lock:
                if self._over:
                    return
                if not self._begun:
                    continue
                if self._busy and time.monotonic() - self._since < 1.0:  # what was just being started, too
                    self._suspend(lambda command: any(word.startswith(self._program) for word in command))
                elif self.quiet_for() > REST:
                    for process in self._suspended:
                        process.resume()
                    self._suspended.clear()

    def suspend_for_good(self) -> list[psutil.Process]:
        """Suspend all but the keeper; returns all that are suspended."""
        with self._lock:
            self._over = True
            self._suspend(lambda command: keeper.__name__ not in command)
            return self._suspended

    def _suspend(self, which: Callable[[list[str]], bool]) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it went first
                if process not in self._suspended and which(process.cmdline()):
                    process.suspend()
                    self._suspended.append(process)


def memory(pids: tuple[int, ...]) -> int:
    """Bytes that these processes take now."""
    total = 0
    for pid in pids:
        with suppress(psutil.Error):  # it died
            total += psutil.Process(pid).memory_info().rss
    return total


def free_memory() -> int:
    """Bytes that are left on this machine, and to the container that we may be in."""
    free = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and limit.read_text().strip() != "max":
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return free


def main(order: Order) -> None:
    """Wait, start, suspend, say so."""
    hold = Hold(order.plan.program()[-1])
    threading.Thread(target=hold.listen, daemon=True).start()
    needed = 2 * memory(order.pids)  # as much again must stay free
    while hold.quiet_for() < order.quiet or free_memory() < needed:
        if not living.is_alive(living.parse(order.owner)):
            return
        time.sleep(0.5)
    from labkit.launch.engines import Engines

    hold.begin()
    engines = Engines.start(order.plan, order.owner, order.folder, PATIENCE)
    engines.client[:].apply_sync(int)  # what a first request needs is loaded by it
    engines.client.close(linger=0)
    keeper.note(order.folder / READY, *map(living.identity, hold.suspend_for_good()))
    os._exit(0)


if __name__ == "__main__":
    main(pickle.loads(bytes.fromhex(sys.argv[1])))
