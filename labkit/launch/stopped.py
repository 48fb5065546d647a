"""Processes of a lab that are stopped, as by SIGSTOP: they live, and would never answer."""

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import psutil

from labkit import LabError
from labkit.launch import living, processes

STOPPED_FOR = 1.0
"""Seconds for which a process must have been stopped before that is told."""
LOOK_AFTER = 0.5
"""Seconds between two looks at all processes of a lab that starts."""


class Stopped:
    """Remembers since when none is known to be stopped."""

    def __init__(self) -> None:
        self._awake = 0.0

    def refuse(self, stopped: Mapping[str, str]) -> None:
        """Told at each look which processes of a lab are stopped, by name their identities. LabError if some
        have been for a while; nothing is ended."""
        if not stopped:
            self._awake = time.monotonic()
        elif time.monotonic() - self._awake > STOPPED_FOR:
            pids = " ".join(identity.split()[0] for identity in stopped.values())
            fix = f"in a terminal: kill -CONT {pids}; or lab.restart()"
            raise LabError("a cell on the ranks", _said(stopped), fix)


@dataclass
class Standstill:
    """A start that cannot go on, because a process of the lab is stopped for more than `patience` seconds."""

    lab_id: str
    patience: float = STOPPED_FOR
    _since: float = math.inf
    _looked: float = -math.inf
    _found: str = ""

    def reason(self) -> str:
        """Which ones are stopped, if some were in every look for so long; else ""."""
        now = time.monotonic()
        if now - self._looked > LOOK_AFTER:
            named = {f"{processes.said(p)} (pid {p.pid})": p for p in processes.of_lab(self.lab_id)}
            stopped = _stopped({name: p for name, p in named.items() if processes.KEEPER not in name})
            self._looked, self._since = now, min(self._since, now) if stopped else math.inf
            self._found = _said(stopped) if now - self._since > self.patience else ""
        return self._found


def _stopped(named: Mapping[str, psutil.Process | None]) -> dict[str, psutil.Process]:
    return {name: p for name, p in named.items() if p and living.is_stopped(p)}


def _said(stopped: Collection[str]) -> str:
    return f"{' and '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped (SIGSTOP)"
