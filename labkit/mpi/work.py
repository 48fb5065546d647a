"""Work: one call under way, from the first step posted to the last tensor written."""

import threading
from collections import deque
from datetime import timedelta

import torch
import torch.distributed as dist

from labkit import LabError
from labkit.mpi.errors import CommunicationError, DeadlineError, MismatchError
from labkit.mpi.record import record
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.steps import PAUSE
from labkit.mpi.wire.waiting import deferred_interrupts, wait_until

# Completing a request and running what follows must happen once, whichever thread polls.
progress = threading.RLock()

# Groups that hold works which wait for their turn. Every wait moves all of them on: a rank that
# blocks in one group must not hold up another.
deferred = {}


class Work(dist.Work):
    """Returned by every verb. All communication of a group begins and ends here.

    Steps are posted by the group in the order of the calls; at most `window` of them are in
    flight, so that a large all_reduce is a pipeline of small ones. The steps of an `ordered` work are
    made from what the ones before them brought, so that it can never post them all ahead.
    `agreement` is the pending check of checked mode: no step is posted before it is reached.
    """

    recorded = False  # by a trace, while one is on

    def __init__(self, group, call, steps, results, window=None, ordered=False):
        super().__init__()
        self.group, self.call, self.channel, self.results = group, call, group.data, results
        self.steps, self.window, self.ordered = iter(steps), window, ordered
        self.flying = deque()
        self.agreement = self.error = self.future = self.received = None
        self.done = self.pausing = False

    # Progress

    def post(self, everything=False):
        """Post steps up to the window, or all that are left."""
        while (
            self.steps is not None
            and (everything or self.window is None or len(self.flying) < self.window)
            and not (self.pausing and self.flying)
        ):
            step = next(self.steps, None)
            self.pausing = step is PAUSE
            if step is None:
                self.steps = None
            elif not self.pausing:
                # First into the list: cut short in between, a step that was not posted must not
                # look like one that is done.
                self.flying.append(step)
                self.channel.post(step)

    def poll(self):
        """Move on without blocking: True when done, None after a step of it."""
        if self.done:
            return True
        if not progress.acquire(blocking=False):
            return False
        try:
            return self.done or self._advance()
        except LabError as error:
            self.fail(error)
        except MPI.Exception as error:
            self.channel.forget(self.flying[0])
            self.fail(self._explain(error))
        finally:
            progress.release()
        return True

    def _advance(self):
        if self.channel.closed:
            self.fail(CommunicationError(
                str(self.call), "labkit.mpi.recover() was called since and ended it", "call it again"
            ))  # fmt: skip
            return True
        before = self.channel.count
        for group in list(deferred) if deferred else ():
            group.pump()
            if self.done:
                return True
        self.move()
        return self.done or (None if self.channel.count != before else False)

    def move(self):
        """Let go of the steps that are done and post others in their place; finish after the last."""
        while self.flying and self.channel.test(self.flying[0], self.received):
            self.flying.popleft()
            self.post()
        if not self.flying and self.steps is None:
            self.finish()

    def _explain(self, error):
        if error.Get_error_class() == MPI.ERR_TRUNCATE:
            found, fix = "the message is longer than that", "receive into a tensor as large as the one sent"
            return MismatchError(f"{self.call}, {_line(self.call)}", found, fix)
        return CommunicationError(str(self.call), f"MPI: {error.Get_error_string()}", "labkit.mpi.recover()")

    def fail(self, error):
        self.error = error
        self.call.failed = True
        self.finish()

    def finish(self):
        self.done, self.steps, self.agreement = True, None, None
        self.flying.clear()
        if self.recorded:
            self.call.end = record.clock()

    # What torch asks of a Work

    def wait(self, timeout=timedelta(0)):
        """Block until done. KeyboardInterrupt, DeadlineError and MismatchError come out of here."""
        if not self.done:
            if self.recorded and self.call.waited is None:
                record.wait(self.call)
            seconds = timeout.total_seconds()
            if seconds <= 0:
                seconds = self.group.seconds
            try:
                in_time = wait_until(self.poll, seconds, self.call, self)
            except KeyboardInterrupt:
                self.group.give_up(self)
                raise
            if not in_time:
                self.group.give_up(self)
                self.error = DeadlineError(
                    f"{self.call} on group {self.group.group_name!r}, {_line(self.call)}",
                    f"not done after {seconds:g} s on rank {self.group.world.rank}",
                    "see which rank did not take part; then labkit.mpi.recover() on every rank",
                )
        if self.error is not None:
            raise self.error
        return True

    def get_future(self):
        """A future that is complete already: torch waits for futures in C++, deaf to interrupts."""
        if self.future is None:
            self.wait()
            self.future = torch.futures.Future()
            # torch runs Python under this call, and makes a RuntimeError of an interrupt in there.
            with deferred_interrupts():
                self.future.set_result(self.results)
        return self.future

    def is_completed(self):
        return self.poll() is True

    def is_success(self):
        return self.done and self.error is None

    def exception(self):
        return self.error

    def result(self):
        return self.results

    def synchronize(self):
        self.wait()

    def source_rank(self):
        """Rank in the group that a receive got its message from."""
        return self.received.Get_source()

    _source_rank = source_rank


def _line(call):
    call.locate()
    file, line = call.place
    return f"{file}, line {line}"


class Receive(Work):
    """A Work that knows where its message came from, and that can be taken back."""

    def __init__(self, group, call, steps, results):
        super().__init__(group, call, steps, results)
        self.received = MPI.Status()

    def finish(self):
        super().finish()
        if self.recorded:
            place = self.received.Get_source()
            self.call.source = self.group.ranks[place] if place >= 0 else None
