"""Work: a call under way as torch has it, which waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from labkit.mpi.errors import DeadlineError
from labkit.mpi.progress import UnderWay
from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.wire.parts import Plan, Step
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import deferred_interrupts, wait_until

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.group import Group
    from labkit.mpi.hazards.watch import Watch


class Work(UnderWay):
    """Returned by every verb. `watch` is there until who called it has waited."""

    watch: Watch | None = None
    future: Any = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until done. KeyboardInterrupt, DeadlineError and MismatchError come out of here."""
        try:  # around all of it: a work is its caller's from the moment that the verb returns
            if self.watch is not None:
                self.watch.end()
            remember(self.call)
            if not self.done:
                self._wait_until_done(timeout.total_seconds())
        except KeyboardInterrupt:
            self.group.give_up(self)
            raise
        if self.error is not None:
            self.seen = True
            raise self.error
        if self.watch is not None:
            self._leave_watch()
        return True

    def _wait_until_done(self, seconds: float) -> None:
        if self.recorded and self.call.waited is None:
            record.wait(self.call)
        if seconds <= 0:
            seconds = self.group.seconds
        if wait_until(self.poll, seconds, self.call, self):
            return
        self.group.give_up(self)
        self.call.locate()
        self.error = DeadlineError(
            f"{self.call} on group {self.group.group_name!r}, {self.call.line}",
            f"not done after {seconds:g} s on rank {self.group.world.rank}",
            "see which rank did not take part; then labkit.mpi.recover() on every rank",
        )

    def _leave_watch(self) -> None:
        watch, self.watch = self.watch, None
        watch.end()
        watch.check()

    def get_future(self) -> torch.futures.Future:
        """A future that is complete already: torch waits for futures in C++, deaf to interrupts."""
        if self.future is None:
            self.wait()
            self.future = torch.futures.Future(devices=_gpus(self.results))
            # torch runs Python under this call, and makes a RuntimeError of an interrupt in there.
            with deferred_interrupts():
                self.future.set_result(self.results)
        return self.future

    def is_completed(self) -> bool:
        if self.poll() is not True:
            return False
        if self.watch is not None and self.error is None:
            self._leave_watch()
        return True

    def is_success(self) -> bool:
        return self.done and self.error is None

    def exception(self) -> Exception | None:
        self.seen = True
        return self.error

    def result(self) -> Sequence[Any]:
        return self.results

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """Rank in the group that a receive got its message from."""
        return self.received.Get_source()

    _source_rank = source_rank


def _gpus(results: Any) -> list[torch.device]:
    """The GPUs that results are on: torch's futures must know them beforehand."""
    if isinstance(results, torch.Tensor):
        return [results.device] if results.is_cuda else []
    return [gpu for inner in results for gpu in _gpus(inner)]


class Receive(Work):
    """A Work that knows where its message came from, and that can be taken back."""

    message: Step | None = None  # once it is posted

    def __init__(self, group: Group, call: Call, plan: Plan | None, results: Sequence[Any]) -> None:
        super().__init__(group, call, plan, results)
        self.received = MPI.Status()

    def finish(self) -> None:
        super().finish()
        if self.recorded or len(self.call.ranks) > 1:
            place = self.received.Get_source()
            self.call.source = self.group.ranks[place] if place >= 0 else None
