"""The ports of an MPI's launcher, on which it lets in whoever comes, from any address.

mpiexec needs them until the ranks have come. On one machine nobody has business there afterwards, and a
stranger's few bytes would end the lab. The launcher cannot be told to close them. But who shares such a
socket can bind it to a network interface that does not exist: the kernel then refuses every connection.
MPICH and Intel MPI leave a copy to each rank's witness, which does that first of all; from Open MPI, whoever
has started it takes one.
"""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import psutil

from labkit.launch.witness import refuse

_PIDFD_GETFD = 438  # the number of that system call on every architecture


def refuse_all_of(process: psutil.Process) -> None:
    """Those of a process that this one has started, as far as the kernel lets us."""
    with suppress(OSError, AttributeError):  # AttributeError: only Linux has pidfd_open
        pidfd = os.pidfd_open(process.pid)
        for name in _sockets(process.pid):
            with suppress(OSError), socket.socket(fileno=_copied(pidfd, int(name))) as found:
                refuse(found)
        os.close(pidfd)


def _sockets(pid: int) -> Iterator[str]:
    """The numbers of a process's sockets."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith("socket:"):
                yield name


def _copied(pidfd: int, descriptor: int) -> int:
    copy = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, descriptor, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return copy
