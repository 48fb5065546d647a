"""Empty a communicator on which operations were given up.

A collective that was given up is not gone: it may write into its tensor long after, whenever the
other ranks enter it and somebody polls. So it is ended rather than dropped. Ranks that never
entered it enter it now with scratch memory; messages that nobody received are received into
scratch memory; receives are cancelled. Then nothing is left that could write.
"""

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from labkit.mpi.wire import steps
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.meet import Meeting, duplicate, share
from labkit.mpi.wire.parts import Mold, Step
from labkit.mpi.wire.runtime import MPI

Molds: TypeAlias = Sequence[dict[int, Mold]]
"""Of each rank: the molds of the collectives that it has entered, by number."""

_PATIENCE = 2.0  # seconds


def empty(channel: Channel, marks: Sequence[int], fresh: MPI.Intracomm) -> Meeting[bool]:
    """End everything in flight on a channel. Collective over it, with the same answer on every rank.

    `marks` has the mark of each rank. False where the ranks contradict each other, as after a
    mismatch outside checked mode, or where it takes too long. `fresh` is a clean communicator
    over the same ranks, and stays clean.
    """
    if len(set(marks)) == 1 and not channel.flying:
        _drain(channel.comm)
        return True
    molds = yield from share(fresh, channel.posted())
    meeting = yield from duplicate(fresh)
    emptied = False
    if _consistent(molds):
        emptying = _Emptying(channel, molds, meeting)
        yield emptying
        emptied = emptying.done
    if all((yield from share(fresh, emptied))):
        meeting.Free()
        return True
    return False


def _consistent(molds: Molds) -> bool:
    """Whether the ranks contradict each other nowhere, and each collective some lack is known."""
    first = min(max(of_rank, default=0) for of_rank in molds) + 1
    last = max(max(of_rank, default=0) for of_rank in molds)
    numbers = set().union(*molds)
    return numbers.issuperset(range(first, last + 1)) and all(
        len({_common(of_rank[number]) for of_rank in molds if number in of_rank}) == 1 for number in numbers
    )


class _Emptying:
    """Ranks stay until all are done: each may hold a message that another waits to see received."""

    def __init__(self, channel: Channel, molds: Molds, meeting: MPI.Intracomm) -> None:
        self.channel, self.meeting, self.done = channel, meeting, False
        self.barrier: MPI.Request | None = None
        self.deadline = time.monotonic() + _PATIENCE
        for step in list(channel.flying):
            step.finish = None  # nobody wants the result
            if step.verb == "Irecv":
                channel.cancel(step)
            elif callable(step.verb):  # not MPI's
                channel.forget(step)
        entered = max(molds[channel.comm.rank], default=0)
        last = max(max(of_rank, default=0) for of_rank in molds)
        for number in range(entered + 1, last + 1):
            channel.post(scratch(channel.comm, [of_rank.get(number) for of_rank in molds]))

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        """Whether it is over: all are done, or it takes too long."""
        _drain(self.channel.comm)
        if self.barrier is None and all([self.channel.test(step) for step in list(self.channel.flying)]):
            self.barrier = self.meeting.Ibarrier()
        self.done = self.barrier is not None and self.barrier.Test()
        return self.done or time.monotonic() > self.deadline


def scratch(comm: MPI.Intracomm, molds: Sequence[Mold | None]) -> Step:
    """A step that takes part in a collective with memory that nobody reads.

    `molds` has the mold of each rank, None for ranks that have not entered it.
    """
    verb, count, dtype, op, root = next(mold for mold in molds if mold is not None)
    if verb == "all_to_all":
        give = [0 if mold is None else mold[1][1][comm.rank] for mold in molds]
        take = [0 if mold is None else mold[1][0][comm.rank] for mold in molds]
        return steps.all_to_all(_blank(sum(give)), _blank(sum(take)), give, take)
    if verb == "all_gather_uneven":
        return steps.all_gather_uneven(_blank(count[comm.rank]), _blank(sum(count)), count)
    one, here = _blank(count, dtype), comm.rank == root
    match verb:
        case "all_reduce":
            return steps.all_reduce(one, op)
        case "reduce":
            return steps.reduce(one, op, root, comm.rank)
        case "broadcast":
            return steps.broadcast(one, root)
        case "all_gather":
            return steps.all_gather(one, _blank(count * comm.size), comm.rank)
        case "gather":
            return steps.gather(one, _blank(count * comm.size) if here else None, root)
        case "scatter":
            return steps.scatter(_blank(count * comm.size) if here else None, one, root)
        case "reduce_scatter":
            return steps.reduce_scatter(_blank(count * comm.size, dtype), one, op)
        case "all_to_all_even":
            return steps.all_to_all_even(_blank(count * comm.size), _blank(count * comm.size), comm.size)
        case "barrier":
            return steps.barrier()
    raise AssertionError(f"no step for {verb}")


def _drain(comm: MPI.Intracomm) -> None:
    """Receive every message that has arrived."""
    while (message := comm.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status := MPI.Status())) is not None:
        blank = _blank(status.Get_count(MPI.BYTE))
        message.Recv([MPI.memory.fromaddress(blank.data_ptr(), blank.nbytes), MPI.BYTE])


def _common(mold: Mold) -> tuple[Any, ...]:
    """The part of a mold that is the same on every rank."""
    return mold[:1] if mold[0] == "all_to_all" else mold


def _blank(count: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.zeros(count, dtype=dtype)
