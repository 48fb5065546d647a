"""A group from its communicators to its end: connected, given up, recovered, split and shut down."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from labkit.mpi.call import Call
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.errors import CommunicationError, TaintedError
from labkit.mpi.identity import Identity
from labkit.mpi.progress import progress
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Receive, Work

if TYPE_CHECKING:
    from typing_extensions import Self

    from labkit.mpi.world import Pair, World


class Lifecycle(Identity):
    """A group of ranks that can be recovered. `tainted` is the call that was given up, if one was."""

    def __init__(
        self,
        world: World,
        key: str,
        ranks: Sequence[int],
        comms: Pair,
        name: str,
        seconds: float,
        store: dist.Store,
    ) -> None:
        super().__init__(comms[0].rank, comms[0].size, name, seconds, store)
        self.world, self.key, self.ranks = world, key, tuple(ranks)
        self.sequence = 0
        self.nccl: dist.ProcessGroup | None = None
        self.connect(comms)
        world.groups[key] = self

    def connect(self, comms: Pair) -> None:
        """Start on fresh communicators, with nothing in flight."""
        self.data, self.side = Channel(comms[0]), Channel(comms[1])
        self.memory = SharedMemory(self.me, [self.world.hosts[rank] for rank in self.ranks])
        self.tainted: Call | None = None
        self.queue: list[Work] = []
        # C++ that is handed a Work, as Join's is, does not keep the part of it that Python knows.
        self.flags: deque[Work] = deque(maxlen=8)
        self.background: threading.Event | None = None  # set when the last all_reduce there is over

    def refuse_if_tainted(self, call: Call) -> None:
        """CommunicationError if this group, or the thread that calls, must not communicate any more."""
        if self.data.closed:
            raise CommunicationError(str(call), f"group {self.named!r} was destroyed", "make a new group")
        if self.tainted is not None:
            raise TaintedError(
                f"{call} on group {self.named!r}",
                f"{self.tainted} at {self.tainted.line}, was given up on this rank",
                "call labkit.mpi.recover() on every rank",
            )
        if self.world.stray and threading.current_thread() in self.world.stray:
            raise CommunicationError(
                f"{call} in a thread",
                "the cell that began this thread has failed, and other ranks may be in another cell",
                "run that cell once more when it is mended",
            )

    def give_up(self, work: Work) -> None:
        """Leave a call that was interrupted or came to its deadline.

        A receive is taken back and the group stays as it was. Anything else cannot be: other
        ranks may have it, or have it halfway. One that is done stays done.
        """
        with progress:
            if work.done:
                return
            if work.watch is not None:
                work.watch.end()
            if isinstance(work, Receive):
                taken_back = work.message in self.data.flying and self.data.cancel(work.message)
                if taken_back and not self.world.checked:
                    self.world.sent_more += 1  # it was counted as received
            else:
                work.call.locate()
                self.tainted = self.tainted or work.call
            work.fail(CommunicationError(str(work.call), "it was interrupted", "call it again"))
            work.seen = True

    def shutdown(self) -> None:
        """Called by destroy_process_group. Communicators with something in flight are kept."""
        self.world.groups.pop(self.key, None)
        self.flags.clear()
        self.nccl = None
        if self.data.closed or MPI.Is_finalized():
            return
        if self.tainted or self.data.flying or self.side.flying:
            self.world.abandoned[self.key] = self
            return
        for channel in (self.data, self.side):
            channel.closed = True
            channel.comm.Free()

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Self | None:
        """A group over `ranks`, ranks in this group; None elsewhere. Only the members need to call it."""
        if self.me not in ranks:
            return None
        world_ranks, name = [self.ranks[rank] for rank in ranks], group_name or f"{self.named}/{list(ranks)}"
        seconds = self.seconds if timeout is None else timeout.total_seconds()
        key = f"{self.world.generation}/{name}"
        comms = self.world.communicators(world_ranks, key, seconds)
        store = dist.PrefixStore(f"{name}/", self.store)
        group = type(self)(self.world, key, world_ranks, comms, name, seconds, store)
        group.described = group_desc or ""
        return group

    def abort(self) -> None:
        self.tainted = self.tainted or Call("abort", self.named, self.ranks)
