"""A communicator and what is in flight on it."""

from collections import deque
from itertools import starmap

from labkit.mpi.runtime import MPI


class Channel:
    """Posts steps on one communicator and remembers them until they are done.

    `flying` maps each posted step to its request and so keeps its tensors alive, whatever
    happens to the Work that asked for it. `history` holds the last collectives, numbered, so that
    recovery can tell which ranks never entered one.
    """

    REMEMBERED = 256

    def __init__(self, comm):
        self.comm = comm
        self.flying = {}
        self.history = deque(maxlen=self.REMEMBERED)
        self.count = 0
        self.closed = False

    def post(self, step):
        """Start one step and return its request; collectives in the same order on every rank."""
        if step.mold is not None:
            self.count += 1
            step.number = self.count
            self.history.append(step)
        # One expression that stays in C from MPI's call to the dictionary: Python looks for signals
        # between bytecodes, so no interrupt can fall between the two and lose the request.
        self.flying.update(zip((step,), starmap(getattr(self.comm, step.verb), (step.args,)), strict=True))
        return self.flying[step]

    def test(self, step):
        """Whether a posted step is done; completes it the first time."""
        request = self.flying.get(step)
        if request is not None:
            if not request.Test():
                return False
            self.complete(step)
        return True

    def complete(self, step):
        """Let go of a step whose request is done, and run its `finish`."""
        finish = step.finish
        self.forget(step)
        if finish is not None:
            finish()

    def cancel(self, step):
        """Take a receive back. False if a message had already matched it: that one is lost."""
        request, status = self.flying[step], MPI.Status()
        request.Cancel()
        request.Wait(status)
        self.forget(step)
        return status.Is_cancelled()

    def forget(self, step):
        step.done = True
        self.flying.pop(step, None)
        step.args = step.keep = step.finish = None

    def mark(self):
        """What tells at a glance whether this channel is idle: equal on all ranks where it is."""
        return self.count if not self.flying else -1

    def posted(self):
        """Molds of the collectives that this rank has entered, by number."""
        return {step.number: step.mold for step in self.history if step.done or step in self.flying}
