"""The witness of a rank: the process that mpiexec knows, which says how the rank ended and then ends alike.

    python -I -S witness.py SOCKET ARGUMENT ...

As a program it asks the fork server of its lab (`labkit.rank.forkserver`) for the rank, and hands over all
that mpiexec gave it. It imports nothing of labkit, so it starts within milliseconds. Where there is no fork
server, on other hosts, `labkit.rank.__main__` is the witness. Either keeps the line open on which mpiexec
serves PMI: so mpiexec learns of a rank's end by the witness, after that has said it.
"""

import json
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

SO_BINDTOIFINDEX = 62  # from <asm-generic/socket.h>; Python has no name for it
NO_INTERFACE = 2**31 - 1
WIDTH = 8
"""Bytes that say how long a message is."""
ALONE = "labkit: the fork server of this rank has ended"
"""What a witness says whose rank ended with the fork server."""


def main(path: str, *arguments: str) -> NoReturn:
    """Let the fork server make a rank of what this process has, and wait for the rank's end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the rank's affair
    refuse_strangers()
    pmi = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
    message = json.dumps([dict(os.environ), arguments, os.getcwd()]).encode()
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(path)
            socket.send_fds(server, [len(message).to_bytes(WIDTH, "little")], [0, 1, 2, *pmi])
            server.sendall(message)
            with server.makefile("rb") as stream:
                code, ending = json.loads(stream.read())
    except (OSError, ValueError):
        sys.exit(ALONE)
    end_as(code, ending)


def refuse_strangers() -> None:
    """Let nobody connect any more to the launcher, which lets everybody in; its ports are open here, too."""
    for number in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(number))) as found:
                refuse(found)
        except OSError:
            pass  # no socket, or an older kernel


def refuse(found: socket.socket) -> None:
    """If others can connect to it: bind it to no network interface, so that the kernel refuses them."""
    if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        found.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, NO_INTERFACE)


def end_as(code: int, ending: str) -> NoReturn:
    """Say how the rank ended, and end so too; never well: a rank has no end of its own."""
    try:
        os.write(2, f"\n{ending}\n".encode())
    except OSError:
        pass  # mpiexec went first
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank has left one
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code or 1)


def end_with(parent: int) -> None:
    """In a rank: whoever ends its parent ends this process, however busy it is."""
    if sys.platform == "linux":
        from ctypes import CDLL

        PR_SET_PDEATHSIG = 1
        CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
