"""Sends of a communicator: blocking ones, made of those that do not block."""

from __future__ import annotations

from sys import _getframe
from typing import Any

from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import OBJECT
from labkit.mpi.watched.letters import Send
from labkit.mpi.watched.operation import SPINS
from labkit.mpi.watched.requests import Request
from labkit.mpi.wire.runtime import MPI

NOBODY = MPI.PROC_NULL
_P = MPI.Intracomm
_ISEND, _ISSEND, _IBSEND, _IRSEND, _BSEND = _P.Isend, _P.Issend, _P.Ibsend, _P.Irsend, _P.Bsend
_TEST = MPI.Request.Test
_DUMPS = MPI.pickle.dumps


class Sends(MPI.Intracomm):
    """In all modes of MPI, of buffers or of pickled objects."""

    def _send(self: Any, start: Any, content: Any, dest: int, tag: int, kind: int | None = None) -> None:
        frame = _getframe(2)
        if kind is None:
            kind = contents.kind(content) if dest != NOBODY else 0
        if record.records is None:
            # Most have ended by now: nothing is made for those that anybody could ask.
            request = start(self, content, dest, tag)
            if dest >= 0:
                self.world.balance += hash((self.number, self.me, dest, tag, kind))
                self.sent.append((dest, tag, kind, frame.f_code, frame.f_lasti))
            for _ in SPINS:
                if _TEST(request):
                    remember((self, "send", dest, tag, frame.f_code, frame.f_lasti))
                    return
            send = Send(self, dest, tag, kind, frame)
        else:
            send = Send(self, dest, tag, kind, frame)
            request = start(self, content, dest, tag)
            self.posted(send)
        send.buffer, send.request = content, request
        send.wait()

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._send(_ISEND, buf, dest, tag)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._send(_ISSEND, buf, dest, tag)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        _BSEND(self, buf, dest, tag)
        self._buffered(0 if dest == NOBODY else contents.kind(buf), dest, tag)

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._send(_IRSEND, buf, dest, tag)

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        self._send(_ISEND, pickled(obj, dest), dest, tag, OBJECT)

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        self._send(_ISSEND, pickled(obj, dest), dest, tag, OBJECT)

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        _BSEND(self, pickled(obj, dest), dest, tag)
        self._buffered(OBJECT, dest, tag)

    def _buffered(self: Any, kind: int, dest: int, tag: int) -> None:
        """A send that waits for nobody."""
        send = Send(self, dest, tag, kind, _getframe(2))
        self.posted(send)
        send.finish()

    def _isend(self: Any, start: Any, content: Any, dest: int, tag: int, kind: int | None = None) -> Request:
        kind = contents.kind(content) if kind is None and dest != NOBODY else kind
        send = Send(self, dest, tag, kind or 0, _getframe(2))
        send.buffer = content
        request = Request.of(send, start(self, content, dest, tag))
        self.posted(send)
        return request

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_ISEND, buf, dest, tag)

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_ISSEND, buf, dest, tag)

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_IBSEND, buf, dest, tag)

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_IRSEND, buf, dest, tag)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_ISEND, pickled(obj, dest), dest, tag, OBJECT)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_ISSEND, pickled(obj, dest), dest, tag, OBJECT)

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return self._isend(_IBSEND, pickled(obj, dest), dest, tag, OBJECT)


def pickled(obj: Any, dest: int) -> bytes | None:
    return None if dest == NOBODY else _DUMPS(obj)
