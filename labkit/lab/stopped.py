"""Processes of a lab that are stopped, as by SIGSTOP: they live, and would never answer."""

import time
from collections.abc import Iterable
from pathlib import Path

from labkit import LabError
from labkit.launch import keeper, processes
from labkit.launch.ranks import Rank

STOPPED_FOR = 1.0
"""Seconds for which a process must have been stopped before that is told."""


class Stopped:
    """Remembers since when none is known to be stopped."""

    def __init__(self) -> None:
        self._awake = 0.0

    def refuse(self, ranks: Iterable[Rank], folder: Path) -> None:
        """LabError if a process of the lab in that folder has been stopped for a while; nothing is ended."""
        named = {str(r): r.process() for r in ranks} | keeper.vital(folder)
        stopped = {name: process for name, process in named.items() if processes.is_stopped(process)}
        if not stopped:
            self._awake = time.monotonic()
        elif time.monotonic() - self._awake > STOPPED_FOR:
            found = f"{' and '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped (SIGSTOP)"
            pids = " ".join(str(process.pid) for process in stopped.values() if process)
            raise LabError(
                "a cell on the ranks", found, f"in a terminal: kill -CONT {pids}; or lab.restart()"
            )
