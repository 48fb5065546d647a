"""A collective under way, of buffers or of pickled objects."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import Content
from labkit.mpi.watched.objects import Plan
from labkit.mpi.watched.operation import Operation
from labkit.mpi.watched.requests import Request
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm

_REQUEST = MPI.Request  # by that name cells find another
_TEST = _REQUEST.Test


class Collective(Operation):
    """A collective under way. `begin` begins it once its turn has come: a request, or the next of a plan.

    `content` is what all ranks must have alike. What only some ranks of the communicator call `counts` not.
    """

    asked = False
    content: Content = None
    user: Request | None = None
    plan: Plan | None = None
    value: Any = None

    def __init__(
        self, comm: Comm, verb: str, begin: Callable[[], Any] | None, frame: FrameType, counts: bool = True
    ) -> None:
        super().__init__(comm, verb, frame)
        self.sequence, self.begin = comm.count(verb) if counts else 0, begin

    @property
    def bytes(self) -> int:  # type: ignore[override]
        return 0 if self.content is None else (self.content[0] & 255 or 1) * self.content[1]

    @property
    def dtype(self) -> str | None:  # type: ignore[override]
        return None if self.content is None else contents.name(self.content[0])

    @property
    def shapes(self) -> Any:  # type: ignore[override]
        return [] if self.content is None else [(self.content[1],)]

    def finish(self) -> None:
        super().finish()
        self.request = self.user = self.begin = self.plan = None

    def agreed(self) -> tuple[object, ...]:
        """What all ranks must agree on."""
        return self.verb, self.root, self.op, self.content

    def post(self) -> None:
        """Its turn has come."""
        if self.plan is not None:
            self._next()
            return
        plain = self.begin()
        if not isinstance(plain, _REQUEST):  # it is over already
            self.value = plain
            self.finish()
        elif self.user is not None:
            self.user.become(plain)
            self.request = self.user
        else:
            self.request = plain

    def _next(self) -> None:
        try:
            self.request = next(self.plan)
        except StopIteration as end:
            self.value = end.value
            self.finish()

    def poll(self) -> bool | None:
        if self.comm.world.busy:
            self.comm.world.move()
        if self.error is not None:
            if not self.done:
                self.finish()
            raise self.error
        if self.request is None or self.done:
            return self.done
        if not _TEST(self.request):
            return False
        if self.plan is None:
            self.finish()
        else:
            self._next()
        return self.done
