"""recover(): after interrupts and deadlines everything is usable again, and nothing old in flight."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.mpi import torch_internals
from labkit.mpi.call import Call
from labkit.mpi.errors import CommunicationError, DeadlineError
from labkit.mpi.progress import deferred, progress
from labkit.mpi.repair import leftovers
from labkit.mpi.repair.drain import empty
from labkit.mpi.repair.leftovers import Leftover
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.meet import Meeting, duplicate, share
from labkit.mpi.wire.parts import Request
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import deferred_interrupts, wait_until
from labkit.mpi.world import World, existing

if TYPE_CHECKING:
    from labkit.mpi.lifecycle import Lifecycle

# What could not be emptied, with the tensors that its requests may still write.
_kept: list[Lifecycle | Channel] = []


def recover(timeout: float = 30.0) -> None:
    """Make every group of this process usable again. Collective: every rank of the world calls it.

    It ends whatever is in flight on any group: waiting for that afterwards raises. DeadlineError after
    `timeout` seconds if some rank does not come. A call that was interrupted, or came to its deadline,
    goes on in the next one where it was. Without any group it does nothing.
    """
    settle(everything=True, timeout=timeout)


def settle(everything: bool = False, timeout: float = 30.0) -> list[Leftover]:
    """Let end what can end of that for which nobody waits, and tell what was left. Collective as `recover`.

    Where on any rank something cannot end, or where one asks to discard `everything`, all groups are made
    usable as `recover` does it.
    """
    global _recovery
    here = existing()
    if here is None:
        return []
    _recovery = _recovery or _Recovery(here, everything)
    try:
        left = _recovery.go_on(timeout)
    except MPI.Exception as error:
        _recovery = None
        raise CommunicationError(
            "labkit.mpi.recover()", f"MPI: {error.Get_error_string()}", "restart the ranks"
        ) from error
    _recovery = None
    return left


class _Recovery:
    """One recovery, to be gone on with until it is done.

    All that it does passes through `rescue` and communicators that it makes, in one order on all ranks. So a
    rank that gave up takes it up again where it was: what it began there cannot be taken back.
    """

    def __init__(self, here: World, everything: bool) -> None:
        self.call = Call("recover", "world", range(here.size))
        self.gate: Request = here.rescue.comm.Ibarrier()
        self.request: Request = self.gate
        self.meeting = _recovered(here, everything)

    def go_on(self, timeout: float) -> list[Leftover]:
        deadline = time.monotonic() + timeout
        if self.request is self.gate:
            self._wait(deadline, "not every rank called it")
        # The others come this far, too, so it takes no time.
        with deferred_interrupts(), progress:
            while True:
                self._wait(deadline, "a rank that had come did not go on")
                try:
                    self.request = next(self.meeting)
                except StopIteration as end:
                    return end.value

    def _wait(self, deadline: float, found: str) -> None:
        seconds = deadline - time.monotonic()
        if not wait_until(self.request.Test, seconds, self.call):
            raise DeadlineError(
                "labkit.mpi.recover()",
                f"{found} in time: {len(self.call.ranks)} ranks must",
                "call it again on every rank; restart the ranks if one cannot",
            )


_recovery: _Recovery | None = None


def _recovered(here: World, everything: bool) -> Meeting[list[Leftover]]:
    """All ranks are here: let end what can, tell what cannot, and begin anew if there is any such thing."""
    left = yield from leftovers.settled(here)
    stuck = not all(leftover.ended for leftover in left)
    if any((yield from share(here.rescue.comm, everything or stuck))):
        yield from _rebuilt(here)
    return left


def _rebuilt(here: World) -> Meeting[None]:
    """Give every group fresh communicators, in the same order on each rank."""
    mine = {**here.abandoned, **here.groups}
    deferred.clear()
    control = Channel((yield from duplicate(here.rescue.comm)))
    old, here.control = here.control, control
    here.tainted, here.sent_more = None, 0
    facts = {
        key: (group.ranks, key in here.groups, group.sequence, _marks(group)) for key, group in mine.items()
    }
    names = torch_internals.groups_made()
    of_rank = yield from share(control.comm, (facts, old.mark(), names, here.generation))
    _agree_on_names(here, [row[2] for row in of_rank], [row[3] for row in of_rank])
    yield from _retire(old, [mark for _, mark, *_ in of_rank], control.comm)
    known = {key: ranks for facts, *_ in of_rank for key, (ranks, *_) in facts.items()}
    for key in sorted(key for key, ranks in known.items() if here.rank in ranks):
        ranks = known[key]
        members = [of_rank[rank][0].get(key) for rank in ranks]
        if None in members:
            # One member destroyed the group in good order and has freed its communicators.
            if key in mine:
                _kept.append(mine[key])
                mine[key].tainted = Call("destroy_process_group", key, ranks)
            continue
        group, comms = mine[key], (yield from here.fresh(ranks))
        for number, channel in enumerate((group.data, group.side)):
            yield from _retire(channel, [marks[number] for *_, marks in members], comms[0])
        if all(alive for _, alive, *_ in members):
            group.connect(comms)
            # Some ranks may never have entered what others gave up; from here on all count alike.
            group.sequence = max(sequence for *_, sequence, _ in members)
        else:
            for comm in comms:
                comm.Free()
    here.abandoned.clear()


def _agree_on_names(here: World, counts: Sequence[int], generations: Sequence[int]) -> None:
    """Of groups: torch counts those it makes, and a rank that gave up making one has counted it."""
    here.generation = max(generations)
    torch_internals.count_groups(max(counts))


def _marks(group: Lifecycle) -> tuple[int, int]:
    return group.data.mark(), group.side.mark()


def _retire(channel: Channel, marks: Sequence[int], fresh: MPI.Intracomm) -> Meeting[None]:
    """Empty a channel and free its communicator, or keep both for ever where that fails."""
    channel.closed = True
    if (yield from empty(channel, marks, fresh)):
        channel.comm.Free()
    else:
        _kept.append(channel)
