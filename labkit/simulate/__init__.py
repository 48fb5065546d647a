"""Schedules on a virtual cluster: the same description that real ranks run, the same Trace that they give.

network      latency, bandwidth, and which messages share a link; the networks that have a name
routes       the latency and the links of each message
cluster      every message an event of SimPy, to some hundred ranks
fabric       the links of such a cluster
flows        messages that share links, fairly, as arrays
recurrence   thousands of ranks whose messages meet nowhere, round by round
shared       a thousand ranks whose messages meet, moment by moment
turning      rings of tens of thousands of ranks
replay       a recorded step of training, on another network
arrivals     workers and one server, in time alone
cost         closed forms: what it costs, when it pays
planner/     a model on a cluster: which configuration is fast, which does not fit
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labkit.schedule.description import Schedule
from labkit.schedule.rounds import Rounds
from labkit.simulate.network import (
    ETHERNET_1G,
    ETHERNET_10G,
    INFINIBAND_HDR,
    INFINIBAND_NDR,
    NVLINK_3,
    NVLINK_4,
    PRESETS,
    Network,
)
from labkit.simulate.recurrence import finish_times, simulate_rounds
from labkit.simulate.turning import ring_finish_times
from labkit.trace import Trace

__all__ = [
    "ETHERNET_10G",
    "ETHERNET_1G",
    "INFINIBAND_HDR",
    "INFINIBAND_NDR",
    "NVLINK_3",
    "NVLINK_4",
    "PRESETS",
    "Network",
    "finish_times",
    "ring_finish_times",
    "simulate",
]


def simulate(
    schedule: Schedule | Rounds,
    network: Network,
    nbytes: int,
    *,
    itemsize: int = 4,
    start: float | Sequence[float] = 0.0,
    noise: Callable | None = None,
    seed: int = 0,
) -> Trace:
    """The trace of a schedule on a virtual cluster, for a tensor of `nbytes` on each rank.

    Rank r begins at `start`, or at start[r]. A `Compute` of s seconds takes noise(random, s) seconds, with
    random numbers (`numpy.random.Generator`) that `seed` and the rank give: the same seed, the same trace.
    `Rounds` without shared links are simulated by a recurrence, all else by SimPy, to some hundred ranks; for
    more of them `finish_times` gives the times alone. LabError for a schedule that gets stuck. Built in
    lesson 07.

    >>> from labkit.algorithms import ring
    >>> trace = simulate(ring(4), ETHERNET_1G, 4_000_000)
    >>> round(max(event.end for event in trace.events), 6)
    0.0483
    """
    if isinstance(schedule, Rounds):
        if not network.shared:
            return simulate_rounds(schedule, network, nbytes, itemsize, start)
        schedule = schedule.schedule()
    from labkit.simulate.cluster import simulate_schedule

    return simulate_schedule(schedule, network, nbytes, itemsize, start, noise, seed)
