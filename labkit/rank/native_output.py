"""What native code writes in a rank: it reaches the notebook, and the last of it outlives the rank.

ipykernel puts pipes in the place of standard output and error, and threads of the same process read them. A
process that is aborted would take along what it wrote a moment before: why. So the threads leave it in the
pipe until they have handed it on, and the process that forked the rank has the other end of the pipe, too.
"""

import codecs
import ctypes
import errno
import io
import os
import socket
import sys
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ipykernel.iostream import OutStream

if TYPE_CHECKING:
    from typing_extensions import Buffer

_AT_ONCE = 1 << 16  # bytes, as many as a pipe holds


class LastWords:
    """Made before a fork: the child gives the pipe that it writes to, its parent reads what is left in it."""

    def __init__(self) -> None:
        self._kept, self._given = socket.socketpair()

    def give(self, pipe: int) -> None:
        """In the child: the end of the pipe from which can be read."""
        socket.send_fds(self._given, [b"p"], [pipe])
        self.close()

    def heard(self) -> str:
        """In the parent, once the child has ended: what nobody has read; "" if it gave no pipe."""
        self._kept.setblocking(False)
        try:
            with suppress(OSError):  # it has given none, or nothing is in it
                for pipe in socket.recv_fds(self._kept, 1, 1)[1]:
                    with os.fdopen(pipe, "rb", buffering=0) as left:
                        os.set_blocking(pipe, False)
                        return (left.read(_AT_ONCE) or b"").decode(errors="replace")
            return ""
        finally:
            self.close()

    def close(self) -> None:
        self._kept.close()
        self._given.close()


class _Bytes(io.BufferedIOBase):
    """Hands bytes on to a stream as text, each character once it is whole."""

    def __init__(self, text: OutStream) -> None:
        self._text, self._decoder = text, codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

    def write(self, data: "Buffer") -> int:
        self._text.write(self._decoder.decode(bytes(data)))
        return memoryview(data).nbytes

    def flush(self) -> None:
        self._text.flush()


class NativeOutput(OutStream):
    """A stream of ipykernel's whose pipe keeps what was not handed on. `last_words` gets that of errors."""

    last_words: LastWords | None = None

    def _setup_stream_redirects(self, name: str) -> None:
        super()._setup_stream_redirects(name)
        if name == "stderr" and self.last_words is not None:
            self.last_words.give(self._fid)

    def fileno(self) -> int:
        """The pipe, so that what a child or a library writes there reaches the notebook, too."""
        return {"stdout": 1, "stderr": 2}[self.name]

    @cached_property
    def buffer(self) -> "_Bytes":
        """Takes bytes, as that of a script's `sys.stdout` does."""
        return _Bytes(self)

    def reconfigure(self, **options: object) -> None:
        """Do nothing: it is UTF-8, and each line is shown soon."""

    def close(self) -> None:
        """Hand on what is in it, and stay open: a cell may close it, and later ones write."""
        self.flush()

    def _watch_pipe_fd(self) -> None:
        if sys.platform != "linux":
            super()._watch_pipe_fd()
            return
        tee, (reading, writing) = ctypes.CDLL(None, use_errno=True).tee, os.pipe()
        while self._should_watch:
            count = tee(self._fid, writing, _AT_ONCE, 0)
            if count <= 0:
                if count < 0 and ctypes.get_errno() == errno.EINTR:
                    continue
                break
            text = os.read(reading, count)
            if self._should_watch:
                self.write(text.decode(errors="replace"))
                with suppress(OSError):  # mpiexec has ended
                    os.write(self._original_stdstream_copy, text)
            os.read(self._fid, count)
        os.close(reading)
        os.close(writing)
