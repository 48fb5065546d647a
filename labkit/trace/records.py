"""What one rank has recorded, as it tells the others: plain data, in nanoseconds of its own clock.

`cpu` times count the processor time of the rank's main thread.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """One reading of both clocks."""

    at: int
    cpu: int


@dataclass(frozen=True)
class Place:
    """A source line. `cell` counts the cells of the trace from 1, 0 is an earlier one, None no cell.

    `file` is the notebook's name for a cell, "In [10]", if it has one.
    """

    text: str
    line: int
    cell: int | None = None
    file: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation as its rank saw it; see `labkit.mpi.call.Call` for its moments."""

    rank: int
    verb: str
    ranks: tuple[int, ...]  # of a message the partner, or for a receive from any source all others
    start: Moment
    end: Moment  # or that of the recording, where it had not ended by then
    ended: bool = True
    failed: bool = False
    waited: Moment | None = None
    source: int | None = None  # the world rank whose message a receive got
    group: str = ""
    sequence: int = 0
    tag: int = 0
    root: int | None = None
    op: str = ""
    bytes: int = 0
    dtype: str = ""
    place: Place | None = None

    @property
    def peers(self) -> tuple[int, ...]:
        """World ranks; of a receive from any source the one whose message it got."""
        return self.ranks if self.source is None else (self.source,)


@dataclass(frozen=True)
class Offset:
    """At `at` on this rank's clock, `offset` was to be added to get rank 0's, give or take `error`."""

    at: int
    offset: int
    error: int


@dataclass(frozen=True)
class Recording:
    """All that one rank recorded: its operations as entered, and when it ran cells."""

    rank: int
    operations: tuple[Operation, ...]
    spans: tuple[tuple[Moment, Moment], ...]
    offsets: tuple[Offset, ...] = ()
