"""What came of a cell that was run in every order: how many were right, and one that was not.

>>> Orders((Order(), Order()))
right in 2 of 2 orders
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from labkit.lab.display.said import Said, failures, text
from labkit.lab.history import History

LISTED = 12
"""Receives of an order that are told."""


class End(Enum):
    """How an order ended; in words, of a cell."""

    RIGHT = "right"
    ERROR = "raises an error"
    DEADLOCK = "deadlocks"


@dataclass(frozen=True)
class Got:
    """A receive from anybody, by its rank and line, and whose message it got."""

    rank: int
    place: str
    source: int

    def __str__(self) -> str:
        return f"rank {self.rank} gets the message of rank {self.source} in {self.place}"


@dataclass(frozen=True)
class Order:
    """One order: what its receives from anybody `got`, what the ranks have `said`, how it came to its end.

    `how` says what else MPI has to do for it: that it does not buffer a send, or when it reads a tensor.
    """

    end: End = End.RIGHT
    got: tuple[Got, ...] = ()
    said: tuple[Said, ...] = ()
    history: History | None = None
    how: str = ""

    def __str__(self) -> str:
        """What had to come together for it, each on a line of its own."""
        return "".join(f"\n  {what}" for what in [*filter(None, [self.how]), *self.got[:LISTED]])


@dataclass(frozen=True, repr=False)
class Orders:
    """All `orders` of a cell that differ; `unexplored` says what others there may be."""

    orders: tuple[Order, ...]
    unexplored: str = ""

    def __len__(self) -> int:
        return len(self.orders)

    def __iter__(self) -> Iterator[Order]:
        return iter(self.orders)

    def __getitem__(self, number: int) -> Order:
        return self.orders[number]

    def of(self, end: End) -> tuple[Order, ...]:
        """Those that end so."""
        return tuple(order for order in self.orders if order.end is end)

    @property
    def results(self) -> tuple[tuple[Order, ...], ...]:
        """Right orders, by what the ranks show in them: more than one result is a race."""
        found: dict[tuple[tuple[str, ...], ...], list[Order]] = {}
        for order in self.of(End.RIGHT):
            found.setdefault(shown(order.said), []).append(order)
        return tuple(map(tuple, found.values()))

    def __repr__(self) -> str:
        """The verdict; every result, if there are several; of other ends one order, and how it came to it."""
        verdict = self._verdict() if self.orders else ""
        return "\n".join(filter(None, [verdict, *self._right(), *self._wrong(), self.unexplored]))

    def _verdict(self) -> str:
        right, results = len(self.of(End.RIGHT)), len(self.results)
        told = f"a race: {results} different results" if results > 1 else "right"
        counts = [(told, right)] + [(end.value, len(self.of(end))) for end in (End.ERROR, End.DEADLOCK)]
        (first, count), *others = [(what, count) for what, count in counts if count]
        whole = f"{first} in {count} of {len(self)} order{'s' * (len(self) != 1)}"
        return ", ".join([whole, *(f"{what} in {count}" for what, count in others)])

    def _right(self) -> Iterator[str]:
        said = [orders[0].said for orders in self.results]
        if len(said) == 1 and (all_of_it := text(said[0])):
            yield all_of_it
        for orders in self.results if len(said) > 1 else ():
            yield f"\nin {len(orders)} of them:{orders[0]}"
            yield text(_differing(orders[0].said, said))

    def _wrong(self) -> Iterator[str]:
        for end in (End.ERROR, End.DEADLOCK):
            for order in self.of(end)[:1]:
                yield f"\none that {end.value}:{order}"
                yield failures([s for s in order.said if s.failure])
                if order.history is not None:
                    yield repr(order.history)


def shown(said: Sequence[Said]) -> tuple[tuple[str, ...], ...]:
    """What all ranks show, to be compared: text, and displays in all their forms."""
    return tuple(
        (s.words(), *(f"{kind}: {data}" for bundle in s.displays for kind, data in bundle.items()))
        for s in said
    )


def _differing(said: Sequence[Said], results: Sequence[Sequence[Said]]) -> tuple[Said, ...]:
    """What those ranks say that do not say the same in all results."""
    kept = [len({shown([result[k]]) for result in results}) > 1 for k in range(len(said))]
    return tuple(s for s, differs in zip(said, kept, strict=True) if differs)
