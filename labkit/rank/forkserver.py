"""The process from which the ranks of a lab on this machine are forked: it has imported what a rank needs, once.

mpiexec starts a stub for each rank (`labkit.launch.stub`), which sends its environment, its arguments and its
files. The rank is forked here and takes them over, among them the line on which mpiexec serves PMI, so that for
MPI the rank is the process that mpiexec started. A rank that ends is told to its stub, which ends alike; a stub
that ends takes its rank along, and the end of the fork server is the end of all of them.

It must stay a process of one thread, which knows nothing of MPI yet, of a GPU, or of sockets but its own.
"""

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from labkit.launch.stub import WIDTH

PATIENCE = 10.0
"""Seconds that a stub may take to say what it has."""
PR_SET_PDEATHSIG = 1
"""Linux: choose the signal that this process gets when its parent has ended."""


@dataclass(frozen=True)
class Place:
    """What a process has from the one that started it."""

    environment: dict[str, str]
    arguments: list[str]
    folder: str
    files: list[int]

    @classmethod
    def received(cls, stub: socket.socket) -> "Place":
        """As a stub sends it: the length, along with its files, and then the rest."""
        stub.settimeout(PATIENCE)
        length, files, _, _ = socket.recv_fds(stub, WIDTH, 4)
        with stub.makefile("rb") as stream:
            said = json.loads(stream.read(int.from_bytes(length, "little")))
        return cls(**said, files=files)

    def take(self) -> None:
        """Put this process there."""
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv[1:] = self.arguments
        os.chdir(self.folder)
        for own, given in enumerate(self.files[:3]):
            os.dup2(given, own)
            os.close(given)
        for pmi in self.files[3:]:
            os.environ["PMI_FD"] = str(pmi)

    def leave(self) -> None:
        """It is another process that takes it."""
        for file in self.files:
            os.close(file)


def serve(listening: socket.socket, ranks: int) -> Place | None:
    """Fork so many ranks. Returns its place in each of them, and None here when all have ended."""
    stubs: dict[int, socket.socket] = {}  # by the pid of the rank
    begun, own = 0, os.getpid()
    with told_of_ends() as ends, selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(ends, selectors.EVENT_READ)
        while begun < ranks or stubs:
            for key, _ in selector.select():
                if key.fileobj is listening:
                    stub, _ = listening.accept()
                    place = Place.received(stub)
                    pid = os.fork()
                    if not pid:
                        end_with(own)
                        for file in (listening, stub, *stubs.values()):
                            file.close()
                        return place
                    place.leave()
                    begun, stubs[pid] = begun + 1, stub
                    selector.register(stub, selectors.EVENT_READ, pid)
                elif key.fileobj is ends:
                    ends.recv(1024)
                    for pid, status in ended():
                        selector.unregister(stubs[pid])
                        with suppress(OSError):  # the stub has ended, too
                            stubs[pid].sendall(status.to_bytes(WIDTH, "little", signed=True))
                        stubs.pop(pid).close()
                elif key.data in stubs:  # a stub says nothing more, so it has ended
                    os.kill(key.data, signal.SIGKILL)
    return None


@contextmanager
def told_of_ends() -> Iterator[socket.socket]:
    """What can be read of it when a child has ended."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing.fileno())
    with reading, writing:
        yield reading
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def ended() -> Iterator[tuple[int, int]]:
    """The children that have ended: pid, and exit status or the negative number of a signal."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def end_with(parent: int) -> None:
    """Let this process not outlive its parent; where the system cannot see to that, the lab's keeper does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main(listening: int, ranks: int) -> None:
    """Import, fork, and be each of the ranks, or wait for their end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the ranks' affair
    import mpi4py

    mpi4py.rc.initialize = False
    from labkit.rank import __main__ as rank
    from labkit.rank import service  # noqa: F401, which a first request would import
    from mpi4py import MPI

    place = serve(socket.socket(fileno=listening), ranks)
    if place is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        place.take()
        MPI.Init_thread()
        rank.main()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
