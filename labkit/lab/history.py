"""The history of a cell that did not end well: its steps, what each rank did in them, how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit.lab.diagnosis import stuck
from labkit.lab.display import steps
from labkit.rank.protocol import COMPUTING, WAITING, Called, State
from labkit.trace import Event, Trace
from labkit.trace.watched import somebody_watches


@dataclass(frozen=True)
class Turn:
    """What one rank does in a step: its State as if it waited, and whether it `goes_on` after it.

    `of_before`: it waits for what it has called in an earlier step.
    """

    state: State
    goes_on: bool = False
    of_before: bool = False


@dataclass(frozen=True)
class Message:
    """One that was sent, by which line, and in which step (from 0)."""

    source: int
    to: int
    tag: int
    place: str
    step: int


@dataclass(frozen=True)
class Step:
    """One call further on every rank that could go on: a Turn for each rank.

    `received` are the messages that met their receives in it. `under_way` are those after it that nobody has
    received, and for which nobody waits.
    """

    turns: tuple[Turn, ...]
    received: tuple[Message, ...] = ()
    under_way: tuple[Message, ...] = ()

    @property
    def states(self) -> tuple[State, ...]:
        """What the ranks do after the step: who goes on computes, as far as the others know."""
        return tuple(
            replace(t.state, doing=COMPUTING) if t.goes_on and t.state.doing == WAITING else t.state
            for t in self.turns
        )


@dataclass(frozen=True)
class Played:
    """A call of a rank: in which step (from 0) it was made, and in which it was over, if it was."""

    rank: int
    call: Called
    begin: int
    end: int | None


@dataclass(frozen=True, repr=False)
class History:
    """The steps of a cell. From `stuck_from` on, the step with that index, the ranks that ended stuck could
    never go on; None if none did. `forgotten`: there were calls before the first step."""

    steps: tuple[Step, ...] = ()
    stuck_from: int | None = None
    calls: tuple[Played, ...] = ()
    forgotten: bool = False

    @property
    def stuck(self) -> tuple[int, ...]:
        """The ranks that could not go on."""
        return tuple(s.rank for s in stuck(self.steps[-1].states)) if self.stuck_from is not None else ()

    def save(self, path: str | Path) -> Path:
        """Write a folder with a Flight Recorder dump of each rank, which `torchfrtrace FOLDER` analyses.

        Where a dump has a time, it is the step, in seconds. Returns where the folder is. LabError if there
        is no such place, or something is in it.
        """
        events = sorted(map(self._event, self.calls), key=lambda event: (event.rank, event.start))
        size = len(self.steps[-1].turns) if self.steps else 0
        return Trace(size, tuple(events)).save(path, format="flight_recorder")

    def _event(self, played: Played) -> Event:
        call, end = played.call, len(self.steps) if played.end is None else played.end + 0.5
        partner = call.peers if call.source is None else (call.source,)
        return Event(
            played.rank, call.verb, played.begin, end, partner, call.bytes, call.dtype, call.group,
            call.number, call.tag, place=call.place, ended=played.end is not None,
        )  # fmt: skip

    def __repr__(self) -> str:
        """The last steps as aligned text, which says the same on every machine."""
        return steps.text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        plain = {"text/plain": repr(self)}
        if not self.steps or not somebody_watches():
            return plain
        from labkit.lab.display.widget import Steps

        start = len(self.steps) - 1 if self.stuck_from is None else self.stuck_from
        widget = Steps(
            steps=steps.drawn(self), step=start, stuck_from=self.stuck_from, verdict=steps.verdict(self)
        )
        bundle, metadata = widget._repr_mimebundle_()
        return bundle | plain, metadata
