"""Operations under way for which nobody waits: which they are, and what becomes of them at the end of a cell.

What all ranks have called ends by itself once all of them move it on. The others never end: a later call
would be matched with them, so they are told, and everything begins anew (`recovery`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from labkit.mpi.call import Call
from labkit.mpi.errors import CommunicationError
from labkit.mpi.wire.meet import Meeting, share
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import waits
from labkit.mpi.work import Work

if TYPE_CHECKING:
    from labkit.mpi.world import World

_PATIENCE = 0.2  # seconds without a reason to wait longer
_LONGEST = 10.0  # seconds for what all ranks have called: large tensors

Key: TypeAlias = tuple[str, str, int, tuple[int, ...], int]
"""Of an operation: group, verb, rank, its partner or the group's members, tag or number."""


@dataclass(frozen=True)
class Leftover:
    """An operation for which nobody waited. `fate` says what was wrong with it, if anything was.

    Where it has not `ended` it never will, and is discarded.
    """

    call: Call
    fate: str
    ended: bool


@dataclass(frozen=True)
class _Facts:
    """What a rank tells the others: what has not ended, and how many collectives it has called."""

    open: frozenset[Key]
    called: dict[str, int]


def pending(here: World) -> list[Work]:
    """Works that have not ended and that no thread waits for, and those whose error nobody has seen.

    Whether a message has ended shows when it is moved on. A collective's result was not there till now.
    """
    held = {id(wait.work) for wait in waits.copy().values()}
    found = {id(work): work for work in _unfinished(here) if id(work) not in held}
    here.left = [work for work in found.values() if work.poll() is not True or work.call.sequence]
    here.left += [work for work in here.failed if not work.seen and work not in here.left]
    return here.left


def _unfinished(here: World) -> Iterator[Work]:
    for group in (*here.groups.values(), *here.abandoned.values()):
        for step in list(group.data.flying):
            if step.work is not None and not step.work.done:
                yield step.work
        yield from (work for work in group.queue if not work.done)


def settled(here: World) -> Meeting[list[Leftover]]:
    """Move on what is pending, on all ranks together, until it has ended or never will."""
    works = list({id(work): work for work in (*here.left, *pending(here))}.values())
    here.left = []
    here.failed.clear()
    deadline = time.monotonic() + _LONGEST
    of_rank = yield from share(here.rescue.comm, _facts(here, works))
    while any(facts.open for facts in of_rank):
        yield _Moving(works)
        before, of_rank = of_rank, (yield from share(here.rescue.comm, _facts(here, works)))
        moved = before != of_rank
        hopeful = any(_met(key, of_rank) for facts in of_rank for key in facts.open)
        late = yield from share(here.rescue.comm, time.monotonic() > deadline)
        if not (moved or hopeful) or any(late):
            break
    return [_leftover(here, work, of_rank) for work in works]


class _Moving:
    """Polls works until all have ended, or for a while."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works, self.deadline = works, time.monotonic() + _PATIENCE

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        return all([work.poll() is True for work in self.works]) or time.monotonic() > self.deadline


def _facts(here: World, works: Sequence[Work]) -> _Facts:
    open_ = frozenset(_key(here, work) for work in works if not work.done)
    groups = {**here.abandoned, **here.groups}
    return _Facts(open_, {key: group.sequence for key, group in groups.items()})


def _key(here: World, work: Work) -> Key:
    call = work.call
    return work.group.key, call.verb, here.rank, tuple(call.ranks), call.sequence or call.tag or 0


def _met(key: Key, of_rank: Sequence[_Facts]) -> bool:
    """Whether all that it takes was called, so that it only takes its time."""
    group, verb, rank, partners, number = key
    if verb not in ("send", "recv"):
        return not _missing(key, of_rank)
    opposite = "recv" if verb == "send" else "send"
    return any(
        other == opposite and partner in partners and rank in theirs and (its_group, its) == (group, number)
        for partner in partners
        for its_group, other, _, theirs, its in of_rank[partner].open
    )


def _missing(key: Key, of_rank: Sequence[_Facts]) -> list[int]:
    group, _, _, members, number = key
    return [rank for rank in members if of_rank[rank].called.get(group, 0) < number]


def _leftover(here: World, work: Work, of_rank: Sequence[_Facts]) -> Leftover:
    call, key = work.call, _key(here, work)
    if (error := work.error) is not None:
        work.seen = True
        found = error.found if isinstance(error, CommunicationError) else str(error)
        return Leftover(call, found, ended=True)
    if work.done:
        return Leftover(call, "", ended=True)
    if call.verb == "send":
        fate = "nobody received it"
    elif call.verb == "recv":
        fate = "nothing was sent"
    elif missing := _missing(key, of_rank):
        fate = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} never called it"
    else:
        fate = f"it did not end within {_LONGEST:g} s"
    return Leftover(call, fate, ended=False)
