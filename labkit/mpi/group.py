"""The process group: torch's verbs on one side, channels and works on the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from labkit import LabError
from labkit.mpi.call import Call
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.errors import CommunicationError, TaintedError
from labkit.mpi.identity import Identity
from labkit.mpi.messages import slow_link
from labkit.mpi.record import record
from labkit.mpi.record.position import position_above
from labkit.mpi.repair.agreement import Agreement
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.parts import Plan, Step
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Receive, Work, deferred, progress

if TYPE_CHECKING:
    from labkit.mpi.world import Pair, World

# Whom a call passes at least on its way down from the user's line, seen from below.
COLLECTIVE = "begin", "the group's verb", "torch's function", "its decorator"
_MESSAGE = "begin_message", "begin_send", "send", "torch's isend"


class Group(Identity):
    """A group of ranks: how calls are posted, given up and recovered.

    Calls follow their plans in order. One that waits for its check, or that is too large to be posted
    at once, stays at the head of `queue`.
    """

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
        self.memory = SharedMemory(self.me, self.members)
        self.tainted: Call | None = None
        self.queue: list[Work] = []

    # Posting

    def begin(
        self,
        verb: str,
        plan: Plan | None,
        results: Sequence[Any],
        tensors: Sequence[torch.Tensor],
        opts: Any = None,
        *,
        blocks: tuple[Sequence[int], Sequence[int]] = ((), ()),
        window: int | None = None,
        ordered: bool = False,
        **about: Any,
    ) -> Work:
        """Check a collective, where that is wanted, and follow its plan. All pass here on their way to MPI.

        A schedule's messages (`collectives.by_schedule`) go their own way: it passes here without a plan.
        """
        if slow_link.link is not None and plan is not None:
            from labkit.mpi.collectives import by_schedule

            return by_schedule.collective(self, verb, results, tensors, **about)
        if "root" in about:
            about["root"] = self._root(verb, about["root"])
        call = Call(verb, self.named, self.ranks, tensors, **about)
        self.refuse_if_tainted(call)
        self.sequence += 1
        call.sequence = self.sequence
        # Without a plan it is done when the ranks agree; a Work that has none left would be done before.
        work = Work(self, call, iter(()) if plan is None else plan, results, window, ordered)
        if record.records is not None and slow_link.link is None:  # else its messages are recorded
            call.where = position_above(*COLLECTIVE)
            record.begin(call, at_once=not getattr(opts, "asyncOp", True))
            work.recorded = True
        try:
            with progress:
                if self.world.checked:
                    # Found here, since an asynchronous call is checked far from its line.
                    call.where = call.where or position_above(*COLLECTIVE)
                    work.agreement = Agreement(self.side, call, *blocks)
                self.queue.append(work)
                self.pump()
        except KeyboardInterrupt:
            self.give_up(work)
            raise
        if work.error is not None:
            work.seen = True
            raise work.error
        if work.recorded and call.waited is None:
            call.posted = record.clock()
        return work

    def _root(self, verb: str, root: int) -> int:
        """Its world rank."""
        if not 0 <= root < self.members:
            name = "src" if verb in ("broadcast", "scatter") else "dst"
            found = f"group {self.named!r} has ranks 0 to {self.members - 1}"
            raise LabError(f"{verb} with {name}={root}", found, "use one of these")
        return self.ranks[root]

    def begin_message(self, work: Work, step: Step) -> Work:
        """Every send and receive passes here on its way to MPI."""
        self.refuse_if_tainted(work.call)
        if isinstance(work, Receive):
            work.message = step
        if record.records is not None:
            work.call.where = work.call.where or position_above(*_MESSAGE)
            record.begin(work.call)
            work.recorded = True
        try:
            with progress:
                work.post(step)
        except KeyboardInterrupt:
            self.give_up(work)
            raise
        if work.recorded:
            work.call.posted = record.clock()
        return work

    def pump(self) -> None:
        """Let works at the head of the queue go on as far as they may now."""
        queue = self.queue
        while queue:
            work = queue[0]
            try:
                if work.agreement is not None and not work.agreement.reached():
                    break
                work.agreement = None
                # A call behind it may be waited for first: then the order of posting must be kept.
                work.follow(everything=len(queue) > 1 and not work.ordered)
                if work.ordered and not work.done:
                    work.move()
            except (LabError, ValueError, MPI.Exception) as error:
                work.fail(error)
            except KeyboardInterrupt:
                # It may have come while this rank waited in another group.
                self.tainted = self.tainted or work.call
                raise
            if work.plan is not None or (work.ordered and not work.done):
                break
            queue.pop(0)
        if queue:
            deferred[self] = True
        else:
            deferred.pop(self, None)

    # Giving up

    def refuse_if_tainted(self, call: Call) -> None:
        if self.data.closed:
            raise CommunicationError(str(call), f"group {self.named!r} was destroyed", "make a new group")
        if self.tainted is not None:
            file, line = self.tainted.place
            raise TaintedError(
                f"{call} on group {self.named!r}",
                f"{self.tainted} at {file}, line {line}, was given up on this rank",
                "call labkit.mpi.recover() on every rank",
            )

    def give_up(self, work: Work) -> None:
        """Leave a call that was interrupted or came to its deadline.

        A receive is taken back and the group stays as it was. Anything else cannot be: other
        ranks may have it, or have it halfway.
        """
        with progress:
            if isinstance(work, Receive):
                if work.message in self.data.flying:
                    self.data.cancel(work.message)
            else:
                work.call.locate()
                self.tainted = self.tainted or work.call
            work.fail(CommunicationError(str(work.call), "it was interrupted", "call it again"))
            work.seen = True

    def shutdown(self) -> None:
        """Called by destroy_process_group. Communicators with something in flight are kept."""
        self.world.groups.pop(self.key, None)
        deferred.pop(self, None)
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
    ) -> Group | None:
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
