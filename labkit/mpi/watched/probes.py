"""Probes of a communicator: blocking ones, made of those that do not block."""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any

from labkit.mpi.watched.matched import Message
from labkit.mpi.watched.operation import Probe
from labkit.mpi.wire.runtime import MPI

ANY_SOURCE, ANY_TAG = MPI.ANY_SOURCE, MPI.ANY_TAG
_P = MPI.Intracomm
_IPROBE, _IMPROBE, _IMPROBE_PICKLED = _P.Iprobe, _P.Improbe, _P.improbe


class Probes(MPI.Intracomm):
    """For a message, which stays for a receive or is taken out at once (`Mprobe`, `Improbe`)."""

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._look(source, tag, lambda: _IPROBE(self, source, tag, status), _getframe(1))

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._look(source, tag, lambda: _IPROBE(self, source, tag, status), _getframe(1))

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._match(_IMPROBE, source, tag, status, wait=True)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._match(_IMPROBE_PICKLED, source, tag, status, wait=True)

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._match(_IMPROBE, source, tag, status, wait=False)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: MPI.Status | None = None) -> Any:
        return self._match(_IMPROBE_PICKLED, source, tag, status, wait=False)

    def _match(
        self: Any, improbe: Any, source: int, tag: int, status: MPI.Status | None, wait: bool
    ) -> Message | None:
        """Take a message out: the first that comes, or None where none has."""
        status = MPI.Status() if status is None else status
        found = improbe(self, source, tag, status)
        if found is None and wait:
            found = self._look(source, tag, lambda: improbe(self, source, tag, status), _getframe(2))
        return None if found is None else Message.of(self, found, status, _getframe(2))

    def _look(self: Any, source: int, tag: int, look: Any, frame: FrameType) -> Any:
        if found := look():
            return found
        probe = Probe(self, source, tag, look, frame)
        probe.wait()
        return probe.found
