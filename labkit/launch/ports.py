"""The ports of a lab are its own from the moment that they were chosen: its controller's, and MASTER_PORT.

ipyparallel looks which ports are free, lets go of them, and listens there when it has imported and written
what else it needs. On a busy machine another process may have got one of them meanwhile.
"""

import socket
import sys

from ipyparallel import util

_kept: list[socket.socket] = []


def keep() -> None:
    """From now on in this process, a controller's: nobody else is given a port that ipyparallel chooses.

    Linux gives a port to nobody but who asks for it by number while a socket is bound to it, and lets a
    second one of these listen there, if both allow it, as ZeroMQ's do.
    """
    if sys.platform == "linux":
        util.select_random_ports = kept


def kept(count: int) -> list[int]:
    """So many ports that are free, and that this process keeps for whoever asks for them by number."""
    for _ in range(count):
        kept = socket.socket()
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("", 0))
        _kept.append(kept)
    return [kept.getsockname()[1] for kept in _kept[len(_kept) - count :]]
