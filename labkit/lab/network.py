"""The network knob: how fast real messages shall be, in words, and as the Network that is simulated too."""

import re
from math import inf

from labkit import LabError
from labkit.lab import remote
from labkit.lab.remote import Reachable
from labkit.simulate.network import Network

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_IN_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "\u00b5s": 1e6}
_NUMBER = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"


def network(bandwidth: str | None = None, latency: str | None = None) -> Network:
    """What these limits mean; one that is left out is none. Lesson 05.

    >>> network("100Mbit/s", "1ms").bandwidth, network("2 GB/s").bandwidth
    (12500000.0, 2000000000.0)
    """
    return Network(
        alpha=0.0 if latency is None else _latency(latency),
        bandwidth=inf if bandwidth is None else _bandwidth(bandwidth),
        name=", ".join(filter(None, (bandwidth, latency))) or "no limit",
    )


def limit(lab: Reachable, bandwidth: str | None, latency: str | None, ranks_per_host: int) -> Network | None:
    """Hold the messages of a lab's ranks back, as `Lab.network` promises."""
    wanted = network(bandwidth, latency)
    if type(ranks_per_host) is not int or ranks_per_host < 1:
        asked = f"a network of hosts with {ranks_per_host!r} ranks"
        raise LabError(asked, "that is no number of ranks", "1: every rank has a host of its own")
    lab.require_running()
    others = {r.backend for r in lab.ranks} - {"mpi"}
    if others:
        found = f"the backend is {', '.join(sorted(others))}: its messages cannot be held back"
        raise LabError("a slower network", found, 'labkit.start(backend="mpi")')
    limits = wanted.bandwidth, wanted.alpha, ranks_per_host
    remote.call(lab, "limit_network", *limits, asked="a slower network")
    return wanted if bandwidth or latency else None


def _bandwidth(text: str) -> float:
    """Bytes per second."""
    found = re.fullmatch(_NUMBER + r"([kMG]?)(bit|B)/s\s*", str(text))
    rate = float(found[1]) * _PREFIX[found[2]] / (8 if found[3] == "bit" else 1) if found else 0
    if rate <= 0:
        fix = 'write "100Mbit/s", "1Gbit/s" or "12.5MB/s"'
        raise LabError(f"a bandwidth of {text!r}", "that is none", fix)
    return rate


def _latency(text: str) -> float:
    """Seconds."""
    found = re.fullmatch(_NUMBER + r"(s|ms|us|\u00b5s)\s*", str(text))
    if not found:
        raise LabError(f"a latency of {text!r}", "that is none", 'write "1ms" or "50us"')
    return float(found[1]) / _IN_A_SECOND[found[2]]
