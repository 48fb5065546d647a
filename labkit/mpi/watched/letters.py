"""A message under way, as one side sees it."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import OBJECT
from labkit.mpi.watched.operation import Here, Operation
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from typing_extensions import Self

    from labkit.mpi.watched.communicators import Comm

_TEST, _GET_STATUS, _WAIT = MPI.Request.Test, MPI.Request.Get_status, MPI.Request.Wait
_IMPROBE_PICKLED = MPI.Intracomm.improbe
SMALL = 1024
"""Bytes up to which every MPI has a message whole when it tells of it."""

Kept: TypeAlias = tuple[int, int, int, CodeType, int]
"""What is kept of a message that is over: its partner, tag, kind, and the line."""


def has_ended(request: MPI.Request) -> bool | MPI.Exception:
    """Whether a request has, which whoever waits for it can still find; its error if it has failed."""
    try:
        return _GET_STATUS(request)
    except MPI.Exception as error:
        return error


class Letter(Operation):
    """A message as one side sees it. `peer` and `tag` are as asked, and when it has come, as they were.

    `kind` is what it is made of. `buffer` is looked at where somebody asks for its size.
    """

    status: MPI.Status | None = None
    buffer: Any = None
    size: int | None = None  # in bytes, once it is over

    def __init__(self, comm: Comm, peer: int, tag: int, kind: int, frame: FrameType | Here) -> None:
        super().__init__(comm, self.verb, frame)
        self.peer, self.tag, self.kind = peer, tag, kind

    @classmethod
    def of(cls, comm: Comm, kept: Kept) -> Self:
        """As it was once."""
        peer, tag, kind, code, at = kept
        return cls(comm, peer, tag, kind, Here(code, at))

    @property
    def ranks(self) -> Sequence[int]:  # type: ignore[override]
        return self.comm.partners(self.peer)

    @property
    def bytes(self) -> int:  # type: ignore[override]
        if self.size is not None:
            return self.size
        if self.kind == OBJECT:
            return 0 if self.buffer is None else len(self.buffer)
        of, count = contents.content(self.buffer)
        return count * (of & 255 or 1)

    @property
    def dtype(self) -> str | None:  # type: ignore[override]
        return contents.name(self.kind) if self.kind > OBJECT else None

    def finish(self) -> None:
        """It is over; it is remembered for a while, and its memory is not."""
        if self.start is not None:
            self.size = self.bytes
        super().finish()
        self.buffer = self.request = None

    def is_over(self) -> bool:
        if self.nonblocking and self.request is not None:
            return has_ended(self.request) is True
        return super().is_over()

    def weight(self, source: int, target: int) -> int:
        """A number that its sender and its receiver find alike."""
        return hash((self.comm.number, source, target, self.tag, self.kind))


class TruncatedError(MPI.Exception):
    """mpi4py's own, in more words."""

    told = ""

    def __str__(self) -> str:
        return self.told


class Send(Letter):
    """A message that goes out."""

    verb = "send"

    def poll(self) -> bool:
        if self.comm.world.busy:
            self.comm.world.move()
        if not _TEST(self.request):
            return False
        self.finish()
        return True

    def begun(self) -> None:
        """Once more."""
        self.comm.world.flying[self] = None
        self.comm.posted(self)


class Receive(Letter):
    """A message that is waited for."""

    verb = "recv"

    def begun(self) -> None:
        """Once more."""
        self.comm.world.flying[self] = None
        self.comm.taken.append(self)

    def poll(self) -> bool:
        if self.comm.world.busy:
            self.comm.world.move()
        try:
            if not _TEST(self.request, self.status):
                return False
        except MPI.Exception as error:
            raise self.explained(error) from None
        self.finish()
        return True

    def explained(self, error: MPI.Exception) -> MPI.Exception:
        if error.Get_error_class() != MPI.ERR_TRUNCATE:
            return error
        truncated = TruncatedError(MPI.ERR_TRUNCATE)
        source = f"rank {self.ranks[0]}" if len(self.ranks) == 1 else "any rank"
        buffer, fix = "buffer that irecv makes", "use recv, or give irecv a larger one"
        if self.kind != OBJECT:
            _, count = contents.content(self.buffer)
            buffer = f"buffer of {count} {contents.name(self.kind)}"
            fix = "receive into one as large as what is sent"
        truncated.told = f"the message from {source} is longer than the {buffer}; {fix}"
        return truncated

    def finish(self) -> None:
        """It has come: from whom, if anybody could have sent it."""
        if not self.done and self.error is None and self.peer != MPI.PROC_NULL:
            comm, status = self.comm, self.status
            if status is not None and (self.peer == MPI.ANY_SOURCE or self.tag == MPI.ANY_TAG):
                self.peer, self.tag = status.source, status.tag
            if self.peer >= 0:
                comm.world.balance -= self.weight(self.peer, comm.me)
                self.source = comm.ranks[self.peer]
        super().finish()

    def give_up(self) -> None:
        """Take it back: the message stays for the next receive."""
        super().give_up()
        if self.request:
            try:
                self.request.Cancel()
                _WAIT(self.request)
            except MPI.Exception:  # it has come, and was too long
                pass
        self.error = RuntimeError("it was given up")
        self.finish()


class ReceivePickled(Receive):
    """The receive of an object: looks for a message of any size, and takes that very one."""

    value: Any = None

    def poll(self) -> bool:
        if self.comm.world.busy:
            self.comm.world.move()
        if self.request is None:
            message = _IMPROBE_PICKLED(self.comm, self.peer, self.tag, self.status)
            if message is None:
                return False
            if self.start is not None:
                self.buffer = bytes(self.status.Get_count(MPI.BYTE))
            if self.status.Get_count(MPI.BYTE) <= SMALL:
                self.value = message.recv(self.status)
                self.finish()
                return True
            self.request = message.irecv()
        ended, self.value = self.request.test(self.status)
        if ended:
            self.finish()
        return ended

    def give_up(self) -> None:
        self.given_up = True  # one that has come is on its way to memory of its own
        if self.request is None:
            self.error = RuntimeError("it was given up")
            self.finish()
