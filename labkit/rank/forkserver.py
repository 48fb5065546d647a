"""The process from which the ranks of a lab on this machine are forked: torch is imported once for all.

    python -m labkit.rank.forkserver LISTENING_SOCKET RANKS

Whoever asks is the witness of a rank (`labkit.launch.witness`), which mpiexec has started. The rank takes
over the witness's environment, arguments and files, among them the line on which mpiexec serves PMI, so that
for MPI it is the process that mpiexec started. A rank's end is told to its witness; a witness that ends takes
its rank along, and the fork server takes all.

Until it forks this must stay a process of one thread, without MPI, GPU, or a socket but its own.
"""

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import mpi4py

from labkit.launch import endings
from labkit.launch.keeping import Keeping
from labkit.launch.witness import WIDTH, end_with
from labkit.rank.native_output import LastWords, NativeOutput

PATIENCE = 10.0
"""Seconds that a witness may take to say what it has."""
MISSED_FOR = 3.0
"""Seconds after which the controller, too, cannot have replaced the lab's keeper."""


@dataclass(frozen=True)
class Place:
    """What a process has from the one that started it; `files`: input, output, error, and PMI's line."""

    environment: dict[str, str]
    arguments: list[str]
    folder: str
    files: list[int]

    @classmethod
    def received(cls, witness: socket.socket) -> "Place":
        """As a witness sends it: the length, along with its files, and then the rest."""
        witness.settimeout(PATIENCE)
        length, files, _, _ = socket.recv_fds(witness, WIDTH, 4)
        with witness.makefile("rb") as stream:
            environment, arguments, folder = json.loads(stream.read(int.from_bytes(length, "little")))
        return cls(environment, arguments, folder, files)

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
        """Another process takes it."""
        for file in self.files:
            os.close(file)


def serve(listening: socket.socket, ranks: int) -> Place | None:
    """Fork so many ranks. Returns its place in each of them, and None here when all have ended."""
    witnesses: dict[int, socket.socket] = {}  # by the pid of the rank
    last_words: dict[int, LastWords] = {}
    begun, own, killed = 0, os.getpid(), set()
    keeping = Keeping(Path(os.environ["LABKIT_FOLDER"]))
    with told_of_ends() as ends, selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(ends, selectors.EVENT_READ)
        while begun < ranks or witnesses:
            keeping.look(MISSED_FOR)
            for key, _ in selector.select(MISSED_FOR):
                if key.fileobj is listening:
                    witness, _ = listening.accept()
                    try:
                        place = Place.received(witness)
                    except (OSError, ValueError):  # it has ended meanwhile, which is its launcher's affair
                        traceback.print_exc()
                        witness.close()
                        continue
                    words = LastWords()
                    rank = os.fork()
                    if rank == 0:
                        end_with(own)
                        for others in (listening, witness, *witnesses.values()):
                            others.close()
                        for theirs in last_words.values():
                            theirs.close()
                        NativeOutput.last_words = words
                        return place
                    place.leave()
                    begun, witnesses[rank], last_words[rank] = begun + 1, witness, words
                    selector.register(witness, selectors.EVENT_READ, rank)
                elif key.fileobj is ends:
                    ends.recv(1024)
                    for rank, code in ended():
                        if rank not in witnesses:  # a keeper
                            continue
                        ending = endings.said(rank, code, last_words.pop(rank).heard())
                        if rank not in killed and code != -signal.SIGTERM:  # which the keeper sends to all
                            endings.note(ending)
                        selector.unregister(witnesses[rank])
                        with witnesses.pop(rank) as witness, suppress(OSError):  # it may have ended, too
                            witness.sendall(json.dumps([code, ending]).encode())
                elif key.data in witnesses:  # it has nothing to say, so it has ended
                    killed.add(key.data)
                    os.kill(key.data, signal.SIGKILL)
    return None


@contextmanager
def told_of_ends() -> Iterator[socket.socket]:
    """Something can be read of this when a child has ended."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing.fileno())
    with reading, writing:
        yield reading
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def ended() -> Iterator[tuple[int, int]]:
    """The children that have ended: pid, and exit code, or the number of a signal below zero."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def main(listening: int, ranks: int) -> None:
    """Import, fork; be one of the ranks, or wait for the end of all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the ranks' affair
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    from labkit.rank import engine, service  # noqa: F401, the second for what a rank does first

    place = serve(socket.socket(fileno=listening), ranks)
    if place is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        place.take()
        before = os.umask(0o077)  # MPIs make shared memory that their user's group could write to
        MPI.Init_thread()
        os.umask(before)
        engine.main()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
