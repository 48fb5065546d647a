"""The point-to-point calls of a communicator: those of other files, both at once, and persistent ones."""

from __future__ import annotations

from sys import _getframe
from typing import Any

from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import OBJECT
from labkit.mpi.watched.letters import Receive, Send
from labkit.mpi.watched.probes import Probes
from labkit.mpi.watched.receives import ANY_SOURCE, ANY_TAG, NOBODY, Receives
from labkit.mpi.watched.requests import Prequest
from labkit.mpi.watched.sends import Sends, pickled
from labkit.mpi.watched.world import Watched
from labkit.mpi.wire.runtime import MPI

_P = MPI.Intracomm


class Messages(Sends, Receives, Probes):
    """Messages between two ranks, in buffers or pickled."""

    # Both at once

    def Sendrecv(
        self: Any,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        receive = self._receive(recvbuf, source, recvtag, status, _getframe(1))
        try:
            send = self._isend(_P.Isend, sendbuf, dest, sendtag).operation
        except BaseException:
            receive.give_up()  # else it would take the next message
            raise
        receive.wait()
        send.wait()

    def Sendrecv_replace(
        self: Any,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        # MPI's own cannot be taken back where it is interrupted.
        kind, copy = contents.kind(buf), None if dest == NOBODY else [_copied(buf, self.world), MPI.BYTE]
        receive = self._receive(buf, source, recvtag, status, _getframe(1))
        try:
            send = self._isend(_P.Isend, copy, dest, sendtag, kind).operation
        except BaseException:
            receive.give_up()
            raise
        receive.wait()
        send.wait()

    def sendrecv(
        self: Any,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        send = self._isend(_P.Isend, pickled(sendobj, dest), dest, sendtag, OBJECT).operation
        value = self._receive_object(source, recvtag, status, _getframe(1))
        send.wait()
        return value

    # Again and again

    def _again(self: Any, start: Any, buf: Any, dest: int, tag: int) -> Prequest:
        frame, kind = _getframe(2), contents.kind(buf) if dest != NOBODY else 0
        return Prequest.of(start(self, buf, dest, tag), lambda: Send(self, dest, tag, kind, frame), buf)

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._again(_P.Send_init, buf, dest, tag)

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._again(_P.Ssend_init, buf, dest, tag)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._again(_P.Bsend_init, buf, dest, tag)

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._again(_P.Rsend_init, buf, dest, tag)

    def Recv_init(self: Any, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        frame, kind = _getframe(1), contents.kind(buf) if source != NOBODY else 0

        def again() -> Receive:
            receive = Receive(self, source, tag, kind, frame)
            receive.status = MPI.Status()
            return receive

        return Prequest.of(_P.Recv_init(self, buf, source, tag), again, buf)


def _copied(buf: Any, world: Watched) -> bytearray:
    """What MPI would send of a buffer, whatever its type: sent to this very rank."""
    sent = world.control.Isend(buf, world.rank)
    message = world.control.Mprobe(world.rank, status=(status := MPI.Status()))
    copy = bytearray(status.Get_count(MPI.BYTE))
    message.Recv([copy, MPI.BYTE])
    sent.Wait()
    return copy
