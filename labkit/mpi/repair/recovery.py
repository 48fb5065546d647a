"""recover(): after interrupts and deadlines everything is usable again, and nothing old in flight."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING

from labkit.mpi.call import Call
from labkit.mpi.errors import DeadlineError
from labkit.mpi.repair.drain import empty
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.meet import duplicate, share
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import deferred_interrupts, wait_until
from labkit.mpi.work import progress
from labkit.mpi.world import World, existing

if TYPE_CHECKING:
    from labkit.mpi.group import Group

# Pending barriers on the rescue communicator; more than one after an interrupt in here.
_meetings: list[MPI.Request] = []
# What could not be emptied, with the tensors that its requests may still write.
_kept: list[Group | Channel] = []


def recover(timeout: float = 30.0) -> None:
    """Make every group of this process usable again. Collective: every rank of the world calls it.

    It ends whatever is in flight on any group: waiting for that afterwards raises. Every rank must
    call it the same number of times, and a call that was interrupted counts. DeadlineError after
    `timeout` seconds if some rank does not come. Without any group it does nothing.
    """
    here = existing()
    if here is None:
        return
    call = Call("recover", "world", range(here.size))
    _meetings.extend(starmap(here.rescue.comm.Ibarrier, [()]))
    while _meetings:
        if not wait_until(lambda: _meetings[0].Test(), timeout, call):
            raise DeadlineError(
                "labkit.mpi.recover()",
                f"not all of {here.size} ranks called it within {timeout:g} s",
                "call it on every rank; restart the ranks if one cannot",
            )
        with deferred_interrupts(), progress:
            _meetings.pop(0)
            _rebuild(here)


def _rebuild(here: World) -> None:
    """All ranks are here: give every group fresh communicators, in the same order on each."""
    old, here.control = here.control, Channel(duplicate(here.rescue.comm))
    here.tainted = None
    mine = {**here.abandoned, **here.groups}
    facts = {
        key: (group.ranks, key in here.groups, group.sequence, _marks(group)) for key, group in mine.items()
    }
    of_rank = share(here.control.comm, (facts, old.mark()))
    _retire(old, [mark for _, mark in of_rank], here.control.comm)
    known = {key: ranks for facts, _ in of_rank for key, (ranks, *_) in facts.items()}
    for key in sorted(key for key, ranks in known.items() if here.rank in ranks):
        ranks = known[key]
        members = [of_rank[rank][0].get(key) for rank in ranks]
        if None in members:
            # One member destroyed the group in good order and has freed its communicators.
            if key in mine:
                _kept.append(mine[key])
                mine[key].tainted = Call("destroy_process_group", key, ranks)
            continue
        group, comms = mine[key], here.fresh(ranks)
        for number, channel in enumerate((group.data, group.side)):
            _retire(channel, [marks[number] for *_, marks in members], comms[0])
        if all(alive for _, alive, *_ in members):
            group.connect(comms)
            # Some ranks may never have entered what others gave up; from here on all count alike.
            group.sequence = max(sequence for *_, sequence, _ in members)
        else:
            for comm in comms:
                comm.Free()
    here.abandoned.clear()


def _marks(group: Group) -> tuple[int, int]:
    return group.data.mark(), group.side.mark()


def _retire(channel: Channel, marks: Sequence[int], fresh: MPI.Intracomm) -> None:
    """Empty a channel and free its communicator, or keep both for ever where that fails."""
    channel.closed = True
    if empty(channel, marks, fresh):
        channel.comm.Free()
    else:
        _kept.append(channel)
