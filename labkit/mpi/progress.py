"""One call under way, from the first step posted to the last tensor written."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from labkit import LabError
from labkit.mpi.errors import CommunicationError, MismatchError
from labkit.mpi.record import record
from labkit.mpi.wire.parts import PAUSE, Local, Plan, Step
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.group import Group
    from labkit.mpi.repair.agreement import Agreement

# Completing a request and running what follows must happen once, whichever thread polls.
progress = threading.RLock()

# Groups that hold works which wait for their turn. Every wait moves all of them on: a rank that
# blocks in one group must not hold up another.
deferred: dict[Group, bool] = {}


class UnderWay(dist.Work):
    """A call that follows its plan. All communication of a group begins and ends here.

    The group has works follow their plans in the order of the calls. At most `window` steps of one are in
    flight, so that a large all_reduce is a pipeline of small ones. At a pause of its plan nothing more is
    posted, though a call behind it is waited for: what comes next goes by what came before. `agreement` is
    the pending check of checked mode: nothing of the plan is done before it is reached.
    """

    recorded = False  # by a trace, while one is on
    agreement: Agreement | None = None
    error: Exception | None = None
    received: MPI.Status | None = None
    done = pausing = False
    seen = False  # its error, by who called

    def __init__(
        self,
        group: Group,
        call: Call,
        plan: Plan | None,
        results: Sequence[Any],
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.group, self.call, self.channel, self.results = group, call, group.data, results
        self.plan, self.window = plan, window
        self.flying: deque[Step] = deque()

    def follow(self, everything: bool = False) -> None:
        """Go on with the plan: run what is local, and post steps up to the window, or all that are left.

        Whoever calls this holds `progress`. The plan only says what comes next: it is done here.
        """
        while (
            self.plan is not None
            and (everything or self.window is None or len(self.flying) < self.window)
            and not (self.pausing and self.flying)
        ):
            part = next(self.plan, None)
            self.pausing = part is PAUSE
            match part:
                case Step():
                    self.post(part)
                case Local():
                    part.run()
                case None:
                    self.plan = None

    def post(self, step: Step) -> None:
        # First into the list: cut short in between, a step that was not posted must not
        # look like one that is done.
        self.flying.append(step)
        step.work = self
        self.channel.post(step)

    def poll(self) -> bool | None:
        """Move on without blocking: True when done, None after a step of it."""
        if self.done:
            return True
        with progress:  # not by `acquire`: an interrupt before its `try` would leave it held for ever
            try:
                return self.done or self._advance()
            except LabError as error:
                self.fail(error)
            except MPI.Exception as error:
                self.channel.forget(self.flying[0])
                self.fail(self._explain(error))
        return True

    def _advance(self) -> bool | None:
        if self.channel.closed:
            self.fail(CommunicationError(
                str(self.call), "it was ended by labkit.mpi.recover(), or with its cell", "call it again"
            ))  # fmt: skip
            return True
        before = self.channel.count
        for group in list(deferred) if deferred else ():
            group.pump()
            if self.done:
                return True
        self.move()
        return self.done or (None if self.channel.count != before else False)

    def move(self) -> None:
        """Let go of the steps that are done and post others in their place; finish after the last."""
        while self.flying and self.channel.test(self.flying[0], self.received):
            self.flying.popleft()
            self.follow()
        if not self.flying and self.plan is None:
            self.finish()

    def _explain(self, error: MPI.Exception) -> CommunicationError:
        if error.Get_error_class() == MPI.ERR_TRUNCATE:
            found = "the message has more bytes: more elements, or larger ones (float64 into float32)"
            fix = "receive into a tensor of the sender's shape and dtype"
            self.call.locate()
            return MismatchError(f"{self.call}, {self.call.line}", found, fix)
        return CommunicationError(str(self.call), f"MPI: {error.Get_error_string()}", "labkit.mpi.recover()")

    def fail(self, error: Exception) -> None:
        self.error = error
        self.group.world.failed.append(self)
        self.call.failed = True
        self.finish()

    def finish(self) -> None:
        self.done, self.plan, self.agreement = True, None, None
        self.flying.clear()
        if self.recorded:
            self.call.end = record.clock()
