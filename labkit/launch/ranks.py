"""The ranks of a lab as facts. Pure but for looking up processes."""

from dataclasses import dataclass

import psutil

from labkit.launch import processes


@dataclass(frozen=True)
class Rank:
    """One rank as the table shows it; `started` is that of `processes.started`."""

    rank: int
    host: str
    pid: int
    device: str
    backend: str
    started: float

    def process(self) -> psutil.Process | None:
        """The living process, or None when it is gone, even if its pid is another's by now."""
        process = processes.parse(f"{self.pid} {self.started!r}")
        return None if processes.status(process) == psutil.STATUS_DEAD else process

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid} on {self.host})"
