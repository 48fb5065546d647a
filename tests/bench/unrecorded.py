"""The way of a collective to MPI, written out with no code that records: what recording is held against.

It exists without the history of the last calls, which labkit's own group keeps even when no trace is on, and
with it. A test holds that it calls the same functions in the same order as the group that can record.
"""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch

from labkit.mpi import work
from labkit.mpi.call import Call
from labkit.mpi.group import _FLAG, COLLECTIVE, _is_small
from labkit.mpi.hazards import temporaries
from labkit.mpi.hazards.watch import cannot_be_waited_for, only_gives, watch
from labkit.mpi.hooks import keep
from labkit.mpi.messages import slow_link
from labkit.mpi.process_group import MPIProcessGroup
from labkit.mpi.progress import progress
from labkit.mpi.record.history import remember
from labkit.mpi.record.position import position_above
from labkit.mpi.repair.agreement import Agreement
from labkit.mpi.wire.parts import Plan
from labkit.mpi.wire.waiting import wait_until


class Work(work.Work):
    """Notes neither when its caller begins to wait nor when it is over."""

    group: "Group"

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if self.watch is not None:
            self.watch.end()
        if self.group.remembers:
            remember(self.call)
        if not self.done:
            self._wait_until_done(timeout.total_seconds())
        if self.error is not None:
            raise self.error
        if self.watch is not None:
            self._leave_watch()
        return True

    def _wait_until_done(self, seconds: float) -> None:
        if seconds <= 0:
            seconds = self.group.seconds
        if not wait_until(self.poll, seconds, self.call, self):
            raise TimeoutError(f"{self.call} is not done after {seconds:g} s")

    def finish(self) -> None:
        self.done, self.plan, self.agreement = True, None, None
        self.flying.clear()


class Group(MPIProcessGroup):
    """Its collectives are never looked up nor kept."""

    remembers = False

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
        assert slow_link.link is None, "nobody measures a slowed link here"
        if "root" in about:
            about["root"] = self.ranks[about["root"]]
        call = Call(verb, self.named, self.ranks, tensors, **about)
        self.refuse_if_tainted(call)
        self.sequence += 1
        call.sequence = self.sequence
        begun = Work(self, call, plan, results, window)
        keep(begun)
        with progress:
            if self.remembers:
                remember(call)
            if self.world.checked:
                call.where = call.where or position_above(*COLLECTIVE)
                begun.agreement = Agreement(self.side, call, *blocks)
                self._tell_apart(begun.agreement)
            self.queue.append(begun)
            self.pump()
        if begun.error is not None:
            raise begun.error
        later = getattr(opts, "asyncOp", False)
        if later and self.world.checked:
            watch(begun, tensors if reads is None else reads, results)
        if later and cannot_be_waited_for(sys._getframe(1)):
            begun.wait()
        if later:
            if begun.watch is None and call.bytes <= _FLAG and all(_is_small(t) for t in tensors):
                self.flags.append(begun)
        elif self.world.checked and not only_gives(call, self.world.rank):
            temporaries.watch(call, results)
        return begun


class RememberingGroup(Group):
    """Its collectives are kept in the history, at the same two places as labkit's."""

    remembers = True
