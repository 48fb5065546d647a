"""The ranks of a lab as facts, and the table that shows them. Pure but for looking up processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import psutil

from labkit import processes
from labkit.table import aligned

COLUMNS = ("rank", "host", "pid", "device", "backend", "state")


@dataclass(frozen=True)
class Rank:
    """One rank as the table shows it; `started` is the start time of its process."""

    rank: int
    host: str
    pid: int
    device: str
    backend: str
    started: float

    def process(self) -> psutil.Process | None:
        """The living process, or None when it is gone, even if its pid is another's by now."""
        process = processes.parse(f"{self.pid} {self.started!r}")
        return process if processes.is_alive(process) else None

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid} on {self.host})"


def text(rows: Sequence[tuple]) -> str:
    """The table as aligned text."""
    return aligned([COLUMNS, *rows])


def html(rows: Sequence[tuple]) -> str:
    """The table as HTML."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
