"""The Trace: all events of all ranks, and what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.trace import chains, chrome
from labkit.trace.event import Event
from labkit.trace.table import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Trace:
    """Who sent what to whom, when, and who waited: `%%px --trace` and `lab.trace()` make one.

    A collective of MPI is one event on each rank: what moves inside it cannot be seen. Messages, and
    algorithms written in messages, are seen one by one. Lessons 01 and 02 read their first.

    Not frozen, as `with lab.trace() as trace` names it before anything has happened: it has no events
    until that block is left.

    >>> Trace(2, (Event(0, "send", 0.0, 1.0, (1,), 8), Event(1, "recv", 0.5, 1.0, (0,), 8))).steps
    1
    """

    world_size: int
    events: tuple[Event, ...]  # in the order of their start
    clock_error: float = 0.0
    """Bound in seconds on the difference between two ranks' clocks and rank 0's, after alignment."""

    @property
    def messages(self) -> tuple[tuple[Event, Event], ...]:
        """(send, recv) of each message that was sent and received, in the order in which they were sent."""
        return chains.messages(self.events)

    @property
    def bytes_sent(self) -> tuple[int, ...]:
        """Bytes that each rank sent in messages. What collectives move is not seen, and not in it."""
        sent = [0] * self.world_size
        for event in self.events:
            if event.verb == "send":
                sent[event.rank] += event.bytes
        return tuple(sent)

    @property
    def steps(self) -> int:
        """Length of the longest chain of messages and collectives of which each waits for the one before."""
        return chains.steps(self.events)

    def critical_path(self) -> tuple[Event, ...]:
        """The chain of events, computing or communicating, that the whole run had to wait for."""
        return chains.critical_path(self.events)

    def table(self, times: bool = False) -> str:
        """The communication of each rank in order, as text; equal from run to run if the program is.

        With `times` also what was measured: start and duration, waiting and processor time in
        milliseconds, and what the ranks computed in between.
        """
        return table(self.events, times)

    def plot(self, title: str | None = None) -> Figure:
        """The timeline: a lane for each rank, an arrow for each message. Without a title it finds one."""
        from labkit.figures.timeline import timeline

        return timeline(self, title)

    def save(self, path: str | Path) -> None:
        """Write a Chrome trace (JSON), which https://ui.perfetto.dev opens and `Trace.load` reads."""
        Path(path).write_text(chrome.dumps(self.world_size, self.events, self.clock_error))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote: an equal Trace. LabError if the file is no such thing."""
        return cls(*chrome.loads(Path(path).read_text(), str(path)))
