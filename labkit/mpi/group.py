"""A group posts its calls: all that torch's verbs ask for passes here on its way to MPI."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from labkit import LabError
from labkit.mpi.call import Call
from labkit.mpi.hazards import temporaries
from labkit.mpi.hazards.watch import cannot_be_waited_for, only_gives, watch
from labkit.mpi.hooks import keep
from labkit.mpi.lifecycle import Lifecycle
from labkit.mpi.messages import slow_link
from labkit.mpi.progress import deferred, progress
from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.record.position import position_above
from labkit.mpi.repair.agreement import Agreement
from labkit.mpi.wire.parts import Plan, Step
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Receive, Work

# Whom a call passes at least on its way down from the user's line, seen from below.
COLLECTIVE = "begin", "the group's verb", "torch's function", "its decorator"
_FLAG = 64
"""Bytes of what torch's own code tells other ranks by the way, as Join does at each step."""
_MESSAGE = "begin_message", "begin_send", "send", "torch's isend"


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.untyped_storage().nbytes() <= _FLAG


class Group(Lifecycle):
    """A group of ranks, whose calls follow their plans in order.

    One that waits for its check, or that is too large to be posted at once, stays at the head of `queue`.
    """

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
        reads: Sequence[torch.Tensor] | None = None,
        **about: Any,
    ) -> Work:
        """Check a collective, where that is wanted, and follow its plan. All pass here on their way to MPI.

        A schedule's messages (`collectives.by_schedule`) go their own way: it passes here without a plan.
        `reads` are the tensors that are read here, where these are others than `tensors`.
        """
        if slow_link.link is not None and plan is not None:
            from labkit.mpi.collectives import by_schedule

            return by_schedule.collective(self, verb, results, tensors, opts, **about)
        if "root" in about:
            about["root"] = self._root(verb, about["root"])
        call = Call(verb, self.named, self.ranks, tensors, **about)
        self.refuse_if_tainted(call)
        # Without a plan it is done when the ranks agree; a Work that has none left would be done before.
        work = Work(self, call, iter(()) if plan is None else plan, results, window)
        if record.records is not None and slow_link.link is None:  # else its messages are recorded
            call.where = position_above(*COLLECTIVE)
            record.begin(call, at_once=not getattr(opts, "asyncOp", True))
            work.recorded = True
        try:
            keep(work)
            with progress:
                self.sequence += 1
                call.sequence = self.sequence
                remember(call)
                if self.world.checked:
                    # Found here, since an asynchronous call is checked far from its line.
                    call.where = call.where or position_above(*COLLECTIVE)
                    work.agreement = Agreement(self.side, call, *blocks)
                    self._tell_apart(work.agreement)
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
        later = getattr(opts, "asyncOp", False)
        if later and self.world.checked:
            watch(work, tensors if reads is None else reads, results)
        if later and cannot_be_waited_for(sys._getframe(1)):
            work.wait()
        if later:
            if work.watch is None and call.bytes <= _FLAG and all(_is_small(t) for t in tensors):
                self.flags.append(work)
        elif self.world.checked and not only_gives(call, self.world.rank):
            temporaries.watch(call, results)
        return work

    def _tell_apart(self, agreement: Agreement) -> None:
        """Note where two threads of this rank call at once: the ranks may see them in another order."""
        for other in self.queue:
            if other.agreement is not None and other.agreement.thread is not agreement.thread:
                agreement.beside, other.agreement.beside = other.call, agreement.call

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
        remember(work.call)
        if not self.world.checked:
            self.world.sent_more += -1 if isinstance(work, Receive) else 1
        if record.records is not None:
            work.call.where = work.call.where or position_above(*_MESSAGE)
            record.begin(work.call)
            work.recorded = True
        try:
            keep(work)
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
                work.follow(everything=len(queue) > 1)
                if work.pausing:
                    work.move()
            except (LabError, ValueError, MPI.Exception) as error:
                work.fail(error)
            except KeyboardInterrupt:
                # It may have come while this rank waited in another group.
                self.tainted = self.tainted or work.call
                raise
            if work.plan is not None:
                break
            queue.pop(0)
        if queue:
            deferred[self] = True
        else:
            deferred.pop(self, None)

    def shutdown(self) -> None:
        deferred.pop(self, None)
        super().shutdown()
