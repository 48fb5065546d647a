"""A port for a server that is started later, by a program that must be told its number."""

import errno
import random
import socket
from pathlib import Path

FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that is free now, and that the system gives to nobody who does not ask for it by number.

    What `bind` to port 0 returns may be the near end of somebody's connection a moment later.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 49152
    for port in random.SystemRandom().sample(range(FIRST, end), 100):
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
    raise OSError(errno.EADDRINUSE, f"a hundred ports from {FIRST} to {end} are in use")
