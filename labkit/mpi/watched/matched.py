"""A message that was found by a probe, and is to be received."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from labkit.mpi.watched import contents
from labkit.mpi.watched.letters import Receive
from labkit.mpi.watched.requests import Kind, Request
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm


class Message(MPI.Message, metaclass=Kind):
    """A message that was matched, and is to be received."""

    about: Any = None

    @classmethod
    def of(cls, comm: Comm, plain: MPI.Message, status: MPI.Status, frame: FrameType) -> Message:
        message = cls(plain)
        if status.source >= 0:
            message.about = Receive(comm, status.source, status.tag, 0, frame)
            comm.taken.append(message.about)
        return message

    def _begun(self, plain: MPI.Request, kind: int, buffer: Any) -> Request:
        request, self.about = self.about, None
        if request is None:
            return Request(plain)
        request.kind, request.buffer = kind, buffer
        return Request.of(request, plain)

    def Irecv(self, buf: Any) -> Request:
        kind = contents.kind(buf) if self.about is not None else 0
        return self._begun(super().Irecv(buf), kind, buf)

    def irecv(self) -> Request:
        return self._begun(super().irecv(), contents.OBJECT, None)

    def Recv(self, buf: Any, status: MPI.Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def recv(self, status: MPI.Status | None = None) -> Any:
        return self.irecv().wait(status)

    @classmethod
    def Probe(
        cls, comm: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return comm.Mprobe(source, tag, status)

    @classmethod
    def probe(
        cls, comm: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return comm.mprobe(source, tag, status)

    @classmethod
    def Iprobe(
        cls, comm: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return comm.Improbe(source, tag, status)

    @classmethod
    def iprobe(
        cls, comm: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None
    ) -> Any:
        return comm.improbe(source, tag, status)
