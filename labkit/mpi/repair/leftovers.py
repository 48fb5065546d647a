"""Operations under way for which nobody waits: which they are, and what becomes of them at the end of a cell.

What all ranks have called ends by itself once all of them move it on. The others never end: a later call
would be matched with them, so they are told, and everything begins anew (`recovery`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from labkit.mpi.call import Call, by_ranks
from labkit.mpi.errors import CommunicationError
from labkit.mpi.progress import UnderWay
from labkit.mpi.record import history
from labkit.mpi.wire.meet import Meeting, share
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import waits

if TYPE_CHECKING:
    from labkit.mpi.world import World

_PATIENCE = 0.2  # seconds without a reason to wait longer
_LONGEST = 5.0  # seconds for what all ranks have called: large tensors
_MESSAGES = ("send", "recv")

Key: TypeAlias = tuple[str, str, int, tuple[int, ...], int]
"""Of an operation: group, verb, rank, its partner or the group's members, tag or number."""
Collective: TypeAlias = tuple[str, int]
"""Its group, and its number there."""


@dataclass(frozen=True)
class Leftover:
    """An operation for which nobody waited. `fate` says what was wrong with it, if anything was.

    Where it has not `ended` it never will, and is discarded. Where it is `waited` for, that is by a thread
    which the cell has left.
    """

    call: Call
    fate: str
    ended: bool
    waited: bool = False


@dataclass(frozen=True)
class _Called:
    """What a rank has called: `agreed` is what all must have alike, `text` the call in words."""

    agreed: str
    text: str


@dataclass(frozen=True)
class _Facts:
    """What a rank tells the others: what has not ended; of each group how many collectives it has called, and
    the number of the first of them that it gave up.
    """

    open: frozenset[Key]
    called: dict[str, int]
    given_up: dict[str, int]

    def goes_on(self, group: str, number: int) -> bool:
        """Whether this rank does its part of that collective."""
        return number <= self.called.get(group, 0) and number < self.given_up.get(group, number + 1)


def pending(here: World) -> list[UnderWay]:
    """Works that have not ended, though a thread may wait for them, and those whose error nobody has seen.

    Whether a message has ended shows when it is moved on. A collective's result was not there till now.
    """
    found = {id(work): work for work in _unfinished(here)}
    here.left = [work for work in found.values() if work.poll() is not True or work.call.sequence]
    here.left += [work for work in here.failed if not work.seen and work not in here.left]
    return here.left


def _unfinished(here: World) -> Iterator[UnderWay]:
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
    held = {id(wait.work) for wait in waits.copy().values()}
    deadline = time.monotonic() + _LONGEST
    of_rank = yield from share(here.rescue.comm, _facts(here, works))
    differing = _differing((yield from share(here.rescue.comm, _called(here, works, of_rank))))
    while any(facts.open for facts in of_rank):
        yield _Moving(works)
        before, of_rank = of_rank, (yield from share(here.rescue.comm, _facts(here, works)))
        moved = before != of_rank
        hopeful = any(_met(key, of_rank, differing) for facts in of_rank for key in facts.open)
        late = yield from share(here.rescue.comm, time.monotonic() > deadline)
        if not (moved or hopeful) or any(late):
            break
    return [replace(_leftover(here, work, of_rank, differing), waited=id(work) in held) for work in works]


class _Moving:
    """Polls works until all have ended, or for a while."""

    def __init__(self, works: Sequence[UnderWay]) -> None:
        self.works, self.deadline = works, time.monotonic() + _PATIENCE

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        return all([work.poll() is True for work in self.works]) or time.monotonic() > self.deadline


def _facts(here: World, works: Sequence[UnderWay]) -> _Facts:
    open_ = frozenset(_key(here, work) for work in works if not work.done)
    groups = {**here.abandoned, **here.groups}
    called = {key: group.sequence for key, group in groups.items()}
    given_up = {key: group.tainted.sequence or 0 for key, group in groups.items() if group.tainted}
    return _Facts(open_, called, given_up)


def _key(here: World, work: UnderWay) -> Key:
    call = work.call
    return work.group.key, call.verb, here.rank, tuple(call.ranks), call.sequence or call.tag or 0


def _called(here: World, works: Sequence[UnderWay], of_rank: Sequence[_Facts]) -> dict[Collective, _Called]:
    """What this rank has called, as far as it is remembered, of the collectives that any has under way."""
    open_ = {(key[0], key[-1]) for facts in of_rank for key in facts.open if key[1] not in _MESSAGES}
    keys = {group.named: key for key, group in {**here.abandoned, **here.groups}.items()}
    torchs = [call for call in history.calls.copy() if type(call) is Call]  # and not mpi4py's
    calls = [(keys.get(call.group), call) for call in torchs]
    calls += [(work.group.key, work.call) for work in works]
    found = {(key, c.sequence): c for key, c in calls if key is not None and c.sequence is not None}
    return {one: _Called(repr(c.agreed()), _told(c)) for one, c in found.items() if one in open_}


def _told(call: Call) -> str:
    return str(call) if call.where is None else f"{call} at {call.line}"


def _differing(of_rank: Sequence[Mapping[Collective, _Called]]) -> dict[Collective, str]:
    """The collectives as which ranks have called something else than others: what each has called."""
    found = {}
    for one in dict.fromkeys(one for called in of_rank for one in called):
        by_rank = {rank: called[one] for rank, called in enumerate(of_rank) if one in called}
        if len({called.agreed for called in by_rank.values()}) > 1:
            found[one] = "\n       ".join(by_ranks({rank: called.text for rank, called in by_rank.items()}))
    return found


def _met(key: Key, of_rank: Sequence[_Facts], differing: Mapping[Collective, str]) -> bool:
    """Whether all that it takes was called, so that it only takes its time."""
    group, verb, rank, partners, number = key
    if verb not in _MESSAGES:
        return not (_missing(key, of_rank) or _held_up(key, differing))
    opposite = "recv" if verb == "send" else "send"
    return any(
        other == opposite and partner in partners and rank in theirs and (its_group, its) == (group, number)
        for partner in partners
        for its_group, other, _, theirs, its in of_rank[partner].open
    )


def _held_up(key: Key, differing: Mapping[Collective, str]) -> bool:
    """Whether that collective, or an earlier one of its group, differs."""
    return any(group == key[0] and number <= key[-1] for group, number in differing)


def _missing(key: Key, of_rank: Sequence[_Facts]) -> list[int]:
    group, _, _, members, number = key
    return [rank for rank in members if not of_rank[rank].goes_on(group, number)]


def _leftover(
    here: World, work: UnderWay, of_rank: Sequence[_Facts], differing: Mapping[Collective, str]
) -> Leftover:
    call, key = work.call, _key(here, work)
    work.seen = True
    if (error := work.error) is not None:
        found = error.found if isinstance(error, CommunicationError) else str(error)
        return Leftover(call, found, ended=True)
    missing = _missing(key, of_rank) if call.sequence else []
    if work.done and not missing:
        return Leftover(call, "", ended=True)
    if call.verb == "send":
        fate = "nobody received it"
    elif call.verb == "recv":
        fate = "nothing was sent"
    elif missing:  # a root may be done with its part all the same
        called = all(of_rank[rank].called.get(key[0], 0) >= key[-1] for rank in missing)
        did = "gave it up" if called else "never called it"
        fate = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} {did}"
    elif _held_up(key, differing):
        fate = differing.get((key[0], key[-1]), "an earlier one of its group differs")
    else:
        fate = f"it did not end within {_LONGEST:g} s"
    return Leftover(call, fate, ended=False)
