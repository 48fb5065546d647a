"""What mpiexec starts in place of a rank: hands all that mpiexec gave it to the fork server, and ends as the rank ends.

    python -I -S stub.py SOCKET ARGUMENT ...

A program of its own, of which a start takes milliseconds: it imports nothing of labkit. It lives as long as
its rank, so that mpiexec sees the rank's end as that of its own process; the fork server ends the rank when
the stub has been ended.
"""

import json
import os
import resource
import signal
import socket
import sys

WIDTH = 8
"""Bytes of a number in a message: of the length of what follows, of a pid, of an exit status."""


def number(connection: socket.socket) -> int:
    """The next number that the fork server sends; its end is the end of the stub."""
    received = b""
    while len(received) < WIDTH:
        more = connection.recv(WIDTH - len(received))
        if not more:
            sys.exit("the process that this rank was to be forked from has ended")
        received += more
    return int.from_bytes(received, "little", signed=True)


def main(path: str, *arguments: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the rank's affair
    pmi = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
    place = {"environment": dict(os.environ), "arguments": arguments, "folder": os.getcwd()}
    message = json.dumps(place).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(message).to_bytes(WIDTH, "little")], [0, 1, 2, *pmi])
        connection.sendall(message)
        status = number(connection)
    if status < 0:  # by a signal: mpiexec is to see the same
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
