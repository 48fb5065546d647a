"""The Trace: all events of all ranks, and what can be asked of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from labkit import LabError
from labkit.trace import chains, chrome, flight
from labkit.trace.event import Event
from labkit.trace.hidden import overlap
from labkit.trace.merge import merge
from labkit.trace.races import Race, races
from labkit.trace.records import Recording
from labkit.trace.table import Chain, Table, table
from labkit.trace.watched import somebody_watches

if TYPE_CHECKING:
    from labkit.figures.style import CourseFigure

LARGEST = 1 << 30
"""Letters of a file that is read as a trace."""


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

    def overlap(self) -> float:
        """The share of the ranks' communication, 0 to 1, during which they computed: what was hidden.

        Waiting for a rank that has not come yet is neither. 0 where nothing was communicated.
        """
        return overlap(self.events)

    def critical_path(self) -> Chain:
        """The chain of events, computing or communicating, that the whole run had to wait for."""
        return Chain(chains.critical_path(self.events))

    def races(self) -> tuple[Race, ...]:
        """The lines that receive from any rank where it is luck whose message they get; printed, a sentence.

        Not by what has happened but by what could: no message or collective puts the sends in an order.
        """
        return races(self.events, self.world_size)

    def table(self, times: bool = False) -> Table:
        """The communication of each rank in order, as text; equal from run to run if the program is.

        With `times` also what was measured: start and duration, waiting and processor time in
        milliseconds, and what the ranks computed in between.
        """
        return table(self.events, times)

    def plot(self, title: str | None = None) -> CourseFigure:
        """The timeline: a lane for each rank, an arrow for each message. Without a title it finds one.

        In a notebook that somebody watches it can be zoomed, and says of each bar and arrow what it is.
        """
        from labkit.figures.timeline import timeline

        made = timeline(self, title)
        if somebody_watches():
            made.page = partial(self._page, made.get_suptitle())
        return made

    def save(self, path: str | Path, format: str = "chrome") -> Path:
        """Write a Chrome trace (JSON), which https://ui.perfetto.dev opens and `Trace.load` reads.

        With `format` "flight_recorder" it is a folder with a Flight Recorder dump of each rank, which
        `torchfrtrace FOLDER` analyses: which rank is missing in which collective, and what does not match.
        Returns where it is. LabError if there is no such folder, or no room.
        """
        file = Path(path).expanduser().absolute()
        if format not in ("chrome", "flight_recorder"):
            raise LabError("a trace saved", f"format={format!r}", 'format="chrome" or "flight_recorder"')
        try:
            if format == "flight_recorder":
                flight.dump(file, self.world_size, self.events)
            else:
                file.write_text(chrome.dumps(self.world_size, self.events, self.clock_error))
        except OSError as error:
            fix = "name a file in a folder that is there and that you may write to"
            raise LabError(f"a trace saved as {path}", str(error), fix) from None
        return file

    def _repr_html_(self) -> str:
        from labkit.figures.finding import finding

        return self._page(finding(self))

    def _page(self, title: str, picture: bytes = b"") -> str:
        from labkit.figures.touch import page

        return page(self, title, chrome.dumps(self.world_size, self.events, self.clock_error), picture)

    @classmethod
    def of(cls, recordings: Sequence[Recording], world_size: int) -> Trace:
        """What all ranks recorded, each on its own clock, as one trace."""
        return cls(world_size, *merge(recordings))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote: an equal Trace; or a folder of Flight Recorder dumps from a cluster.

        Dumps of different hosts have no common clock: their times are off by as much as those are. LabError
        if it is no such thing.
        """
        try:
            if Path(path).is_dir():
                return cls(*_of_dumps(Path(path)))
            text = _text(Path(path))
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(
                "a saved trace", f"{path}: {error}", "give a file that Trace.save() wrote"
            ) from None
        return cls(*chrome.loads(text, str(path)))


def _of_dumps(folder: Path) -> tuple[int, tuple[Event, ...], float]:
    world_size, recordings = flight.load(folder)
    try:
        events, clock_error = merge(recordings)
        return world_size, tuple(chrome.checked(vars(event), world_size) for event in events), clock_error
    except chrome.UNREADABLE as error:
        raise flight.no_dumps(folder, error) from None


def _text(file: Path) -> str:
    """What the file holds. OSError if it is a pipe or a device, or too large to be a trace."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError("it is no file")
        text = opened.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise OSError(f"it has more than {LARGEST:,} letters")
    return text
