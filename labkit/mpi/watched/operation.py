"""One call of mpi4py under way; and the wait for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.mpi.call import Call
from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.record.position import Position
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import wait_until

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm

SPINS = range(8)
"""Tests before anything is made that others could look at: most calls have ended by then."""


class Here(NamedTuple):
    """How far the user's code had come: what is kept of a frame."""

    f_code: CodeType
    f_lasti: int


class Operation(Call):
    """A Call that says what it is when it is asked, and no sooner: most end before anybody asks.

    `poll` moves it on, without blocking, and says whether it has ended. `error` is how it failed.
    """

    request: MPI.Request | None = None
    error: Exception | None = None
    done = False
    given_up = cancelled = nonblocking = False
    tag = root = op = dtype = None
    shapes: Any = ()
    bytes = 0
    source = None

    def __init__(self, comm: Comm, verb: str, frame: FrameType | Here) -> None:
        self.comm, self.verb, self.here = comm, verb, (frame.f_code, frame.f_lasti)
        remember(self)
        if record.records is not None:
            record.begin(self)

    @property
    def where(self) -> Position:  # type: ignore[override]
        return Position(Here(*self.here))

    @property
    def group(self) -> str:  # type: ignore[override]
        return self.comm.key

    @property
    def ranks(self) -> Sequence[int]:  # type: ignore[override]
        return self.comm.ranks

    def poll(self) -> bool | None:
        raise NotImplementedError

    def ended(self) -> bool:
        """Move it on, for good: whether it has ended well. Its error is kept where all such are."""
        if not self.done:
            try:
                self.poll()
            except Exception as error:
                self.error = error
                self.finish()
                self.comm.world.failed.append(self)
        return self.done and self.error is None

    def is_over(self) -> bool:
        """Whether it has ended well. Whoever waits for it can still find that, or its error."""
        return self.error is None and self.ended()

    def finish(self) -> None:
        self.done = True
        self.comm.world.flying.pop(self, None)
        if self.start is not None:
            record.finish(self, failed=self.error is not None, source=self.source)

    def give_up(self) -> None:
        """It was interrupted: nobody waits for it any more."""
        self.given_up = True

    def wait(self) -> None:
        """Until it has ended; KeyboardInterrupt and its error come out of here."""
        if self.start is not None:
            record.wait(self)
        elif self.poll():
            return
        self.comm.world.flying[self] = None
        try:
            wait_until(self.poll, inf, self)
        except KeyboardInterrupt:
            self.give_up()
            raise
        except Exception as error:
            self.error = error
            self.finish()
            raise


class Probe(Operation):
    """A look for a message, again and again."""

    def __init__(self, comm: Comm, source: int, tag: int, look: Callable[[], Any], frame: FrameType) -> None:
        super().__init__(comm, "probe", frame)
        self.peer, self.tag, self.look = source, tag, look
        self.found: Any = None

    @property
    def ranks(self) -> Sequence[int]:  # type: ignore[override]
        return self.comm.partners(self.peer)

    def poll(self) -> bool:
        self.comm.world.move()
        self.found = self.look()
        if self.found:
            self.finish()
        return bool(self.found)
