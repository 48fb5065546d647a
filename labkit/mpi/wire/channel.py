"""A communicator and what is in flight on it; and a receive from whoever sends."""

from __future__ import annotations

from collections import deque
from itertools import starmap
from typing import cast

from labkit.mpi.wire.buffers import Buffer
from labkit.mpi.wire.parts import Mold, Request, Step
from labkit.mpi.wire.runtime import MPI

_RECEIVE = MPI.Message.Irecv  # in a lab's cells another class has that name


class Channel:
    """Posts steps on one communicator and remembers them until they are done.

    `flying` maps each posted step to its request and so keeps its tensors alive, whatever
    happens to the Work that asked for it. `history` holds the last collectives, numbered, so that
    recovery can tell which ranks never entered one.
    """

    REMEMBERED = 256
    CROWD = 1000
    # MPI moves a large message on by a few kB a test; what Python does between two of them adds up.
    TESTS = range(8)
    both_ways = False
    """Whether some ranks share this one's host and others do not. The same on all channels of a process."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.flying: dict[Step, Request] = {}
        self.history: deque[Step] = deque(maxlen=self.REMEMBERED)
        self.count = 0
        self.closed = False
        self.crowd = self.CROWD

    def post(self, step: Step) -> None:
        """Start one step; collectives in the same order on every rank."""
        if step.mold is not None:
            self.count += 1
            step.number = self.count
            self.history.append(step)
        start = step.verb if callable(step.verb) else getattr(self.comm, step.verb)
        if step.verb == "Irecv" and self.both_ways and step.args[1] == MPI.ANY_SOURCE:
            start = self._from_anybody
        try:
            # One expression that stays in C from MPI's call to the dictionary: Python looks for
            # signals between bytecodes, so no interrupt can fall in between and lose the request.
            self.flying.update(zip((step,), starmap(start, (step.args,)), strict=True))
        except (ValueError, MPI.Exception):
            if step.mold is not None:
                self.count -= 1
                self.history.pop()
            raise
        if len(self.flying) > self.crowd:
            self.sweep()

    def _from_anybody(self, buffer: Buffer, source: int, tag: int) -> FromAnybody:
        return FromAnybody(self.comm, buffer, tag)

    def test(self, step: Step, status: MPI.Status | None = None) -> bool:
        """Whether a step is done; the first time, let go of it and run its `finish`."""
        request = self.flying.get(step)
        if request is None:
            return step.done
        for _ in self.TESTS:
            if request.Test(status):
                break
            if callable(step.verb):
                return False
        else:
            return False
        finish = step.finish
        self.forget(step)
        if finish is not None:
            finish()
        return True

    def sweep(self) -> None:
        """Let go of what is done and nobody waited for."""
        for step in list(self.flying):
            if step.verb != "Irecv":  # its Work wants to know where it came from
                self.test(step)
        self.crowd = max(self.CROWD, 2 * len(self.flying))

    def cancel(self, step: Step) -> bool:
        """Take a receive back. False if a message had already matched it: that one is lost."""
        request, status = cast("MPI.Request | FromAnybody", self.flying[step]), MPI.Status()
        if not request:  # cut short between the test that ended it and what follows
            self.forget(step)
            return False
        request.Cancel()
        request.Wait(status)
        self.forget(step)
        return status.Is_cancelled()

    def forget(self, step: Step) -> None:
        step.done = True
        self.flying.pop(step, None)
        step.args = step.keep = step.finish = step.work = None

    def mark(self) -> int:
        """What tells at a glance whether this channel is idle: equal on all ranks where it is."""
        return self.count if not self.flying else -1

    def posted(self) -> dict[int, Mold]:
        """Molds of the collectives that this rank has entered, by number."""
        return {step.number: step.mold for step in self.history if step.done or step in self.flying}


class FromAnybody:
    """In place of the request of `comm.Irecv(buffer, ANY_SOURCE, tag)`.

    It looks for a message at each test and takes it from the sender that it came from. MPICH posts a receive
    of any source twice, once for each way, and up to 5.0 one of the two can lose a small message
    (https://github.com/pmodels/mpich/pull/7745).
    """

    def __init__(self, comm: MPI.Intracomm, buffer: Buffer, tag: int) -> None:
        self._comm, self._buffer, self._tag = comm, buffer, tag
        self._requests: list[MPI.Request] = []  # empty until a message is there
        self._cancelled = False

    def __bool__(self) -> bool:
        return not self._requests or bool(self._requests[0])

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        if not self._requests:
            # One expression that stays in C, as in Channel.post: an interrupt in it would lose the message.
            look = starmap(self._comm.Improbe, ((MPI.ANY_SOURCE, self._tag),))
            self._requests.extend(map(_RECEIVE, filter(None, look), (self._buffer,)))
        return bool(self._requests) and self._requests[0].Test(status)

    def Cancel(self) -> None:
        if self._requests:
            self._requests[0].Cancel()
        else:
            self._cancelled = True

    def Wait(self, status: MPI.Status | None = None, /) -> None:
        if not self._cancelled:
            self._requests[0].Wait(status)
        elif status is not None:
            status.Set_cancelled(True)
