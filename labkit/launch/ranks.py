"""The ranks of a lab as facts. Pure but for looking up processes."""

from dataclasses import dataclass

import psutil

from labkit.launch import living


@dataclass(frozen=True)
class Rank:
    """One rank as the table shows it; `started` is that of `living.started`."""

    rank: int
    host: str
    pid: int
    device: str
    backend: str
    started: float

    @property
    def identity(self) -> str:
        """As `living.identity` has it."""
        return f"{self.pid} {self.started!r}"

    def process(self) -> psutil.Process | None:
        """The living process, or None when it is gone, even if its pid is another's by now."""
        process = living.parse(self.identity)
        return None if living.status(process) == psutil.STATUS_DEAD else process

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid} on {self.host})"
