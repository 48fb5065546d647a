"""Receives of a communicator: blocking ones, made of those that do not block."""

from __future__ import annotations

import warnings
from sys import _getframe
from types import FrameType
from typing import Any

from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import OBJECT
from labkit.mpi.watched.letters import SMALL, Receive, ReceivePickled
from labkit.mpi.watched.operation import SPINS
from labkit.mpi.watched.requests import Request
from labkit.mpi.wire.runtime import MPI

ANY_SOURCE, ANY_TAG, NOBODY = MPI.ANY_SOURCE, MPI.ANY_TAG, MPI.PROC_NULL
_P = MPI.Intracomm
_IRECV, _IMPROBE_PICKLED = _P.Irecv, _P.improbe
_TEST = MPI.Request.Test


class Receives(MPI.Intracomm):
    """Of buffers, or of pickled objects."""

    def _receive(
        self: Any, buf: Any, source: int, tag: int, status: MPI.Status | None, frame: FrameType
    ) -> Receive:
        """One that is posted."""
        kind = 0 if source == NOBODY else contents.kind(buf)
        receive = Receive(self, source, tag, kind, frame)
        receive.buffer = buf
        receive.status = _status(status, source, tag)
        receive.request = _IRECV(self, contents.landing(buf), source, tag)
        self.taken.append(receive)
        return receive

    def Recv(
        self: Any, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None
    ) -> None:
        frame = _getframe(1)
        if record.records is not None:
            self._receive(buf, source, tag, status, frame).wait()
            return
        kind = 0 if source == NOBODY else contents.kind(buf)
        status = _status(status, source, tag)
        request = _IRECV(self, contents.landing(buf), source, tag)
        try:
            for _ in SPINS:
                if _TEST(request, status):
                    self._took(source, tag, kind, status, frame)
                    return
        except MPI.Exception as error:
            failed = Receive(self, source, tag, kind, frame)
            failed.buffer = buf
            raise failed.explained(error) from None
        receive = Receive(self, source, tag, kind, frame)
        receive.buffer, receive.status, receive.request = buf, status, request
        self.taken.append(receive)
        receive.wait()

    def _took(
        self: Any, source: int, tag: int, kind: int, status: MPI.Status | None, frame: FrameType
    ) -> None:
        """A message has come at once."""
        if source == ANY_SOURCE or tag == ANY_TAG:
            source, tag = status.source, status.tag
        if source >= 0:
            self.world.balance -= hash((self.number, source, self.me, tag, kind))
            self.taken.append((source, tag, kind, frame.f_code, frame.f_lasti))
            remember((self, "recv", source, tag, frame.f_code, frame.f_lasti))

    def recv(
        self: Any,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", stacklevel=2)  # as mpi4py says it
        return self._receive_object(source, tag, status, _getframe(1))

    def _receive_object(self: Any, source: int, tag: int, status: MPI.Status | None, frame: FrameType) -> Any:
        status = MPI.Status() if status is None else status
        message = None
        if record.records is None:
            for _ in SPINS:
                message = _IMPROBE_PICKLED(self, source, tag, status)
                if message is None:
                    continue
                if status.Get_count(MPI.BYTE) > SMALL:
                    break
                value = message.recv(status)
                self._took(source, tag, OBJECT, status, frame)
                return value
        receive = ReceivePickled(self, source, tag, OBJECT, frame)
        receive.status = status
        if message is not None:
            receive.request = message.irecv()
        self.taken.append(receive)
        receive.wait()
        value, receive.value = receive.value, None
        return value

    def Irecv(self: Any, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        receive = self._receive(buf, source, tag, None, _getframe(1))
        return Request.of(receive, receive.request)

    def irecv(self: Any, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        receive = Receive(self, source, tag, OBJECT, _getframe(1))
        receive.status = MPI.Status()
        receive.request = _P.irecv(self, buf, source, tag)
        self.taken.append(receive)
        return Request.of(receive, receive.request)


def _status(given: MPI.Status | None, source: int, tag: int) -> MPI.Status | None:
    """Where it is told whose message has come, if it can be anybody's."""
    return MPI.Status() if given is None and (source == ANY_SOURCE or tag == ANY_TAG) else given
