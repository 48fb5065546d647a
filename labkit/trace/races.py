"""Receives from any rank that could have got another message: it was luck who came first. Pure.

A receive and a send that it did not get are a race unless one of them must come before the other, whatever
the speed of the ranks (Netzer and Miller, Optimal tracing and replay for debugging message-passing parallel
programs, 1992). What must come first is told by vector clocks: a rank knows what it has done, all that a rank
had done that sent it a message, and all that ranks had done whose collective it has left.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from labkit.trace.chains import units
from labkit.trace.event import COMPUTE, MESSAGE, Event

_FROM_ROOT, _TO_ROOT = ("broadcast", "scatter"), ("reduce", "gather")

Moment: TypeAlias = tuple[int, bool]
"""The id of an event, and whether it is its end."""


@dataclass(frozen=True)
class Race:
    """A line of a rank that receives from any rank, and the ranks whose messages compete there."""

    rank: int
    place: str
    sources: tuple[int, ...]

    def __str__(self) -> str:
        who = " or ".join(f"rank {source}'s" for source in self.sources)
        place = f" ({self.place})" if self.place else ""
        return (
            f"rank {self.rank}: a receive from any rank gets {who} message, whoever is first: a race{place}"
        )


def races(events: Sequence[Event], world_size: int) -> tuple[Race, ...]:
    """One for each line, in the order of their first receives."""
    receive_of = {
        id(one): other for unit in units(events) for one in unit for other in unit if other.verb == "recv"
    }
    clocks = _clocks(events, world_size)
    found: dict[tuple[int, str], set[int]] = {}
    for recv in (e for e in events if e.any_source and len(e.peers) == 1):
        over = clocks[id(recv), True][recv.rank]
        rivals = {
            send.rank
            for send in events
            if send.verb == "send" and send.peers == (recv.rank,)
            and (send.tag, send.group) == (recv.tag, recv.group)
            and send.rank != recv.peers[0]
            and clocks[id(send), False][recv.rank] < over
            and not _earlier(receive_of.get(id(send)), recv)
        }  # fmt: skip
        if rivals:
            found.setdefault((recv.rank, recv.place), set()).update(rivals, recv.peers)
    return tuple(Race(rank, place, tuple(sorted(sources))) for (rank, place), sources in found.items())


def _earlier(got: Event | None, recv: Event) -> bool:
    return got is not None and got.start < recv.start


def _clocks(events: Sequence[Event], world_size: int) -> dict[Moment, list[int]]:
    """The vector clock of each start and end: how many moments of each rank must have come before it."""
    moments: dict[int, list[tuple[float, bool, Event]]] = defaultdict(list)
    for event in events:
        if event.verb != COMPUTE:
            moments[event.rank] += [(event.start, False, event), (event.end, True, event)]
    for mine in moments.values():
        mine.sort(key=lambda moment: moment[:2], reverse=True)
    before = {id(one): _before(one, unit) for unit in units(events) for one in unit}
    now: dict[int, list[int]] = {rank: [0] * world_size for rank in moments}
    clocks: dict[Moment, list[int]] = {}
    while left := [mine for mine in moments.values() if mine]:
        ready = [
            mine for mine in left
            if not mine[-1][1] or all((id(one), False) in clocks for one in before.get(id(mine[-1][2]), ()))
        ]  # fmt: skip
        # Clocks of ranks that differ a little can seem to close a circle.
        for mine in ready or [min(left, key=lambda mine: mine[-1][:2])]:
            _, ends, event = mine.pop()
            clock = now[event.rank]
            clock[event.rank] += 1
            for one in before.get(id(event), ()) if ends else ():
                clock[:] = map(max, clock, clocks.get((id(one), False), clock))
            clocks[id(event), ends] = clock.copy()
    return clocks


def _before(one: Event, unit: Iterable[Event]) -> list[Event]:
    """Those of one message or collective that must have begun before this one of it can end."""
    if one.verb in MESSAGE:
        return [other for other in unit if one.verb == "recv" and other.verb == "send"]
    from_all = one.verb not in _FROM_ROOT and (one.verb not in _TO_ROOT or one.rank == one.root)
    return [other for other in unit if from_all or (one.verb in _FROM_ROOT and other.rank == one.root)]
