"""Thousands of ranks: when each is done, one round after another where no two messages meet on a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from labkit.schedule.chunks import boundary, chunk_range, label
from labkit.schedule.rounds import Round, Rounds
from labkit.simulate.network import Network
from labkit.simulate.routes import Routes
from labkit.simulate.shared import SharedRun
from labkit.trace import Event, Trace

Start = float | Sequence[float] | np.ndarray
"""When ranks begin, in seconds: all of them, or rank r at start[r]."""


def finish_times(
    rounds: Rounds, network: Network, nbytes: int, *, itemsize: int = 4, start: Start = 0.0
) -> np.ndarray:
    """Seconds when each rank is done, [R]; rank r begins at start, or start[r].

    A message begins when both its ranks are ready for it. `start` is a simple model of compute times: draw
    them, and add the all-reduce. Where messages meet on links, a thousand ranks take some seconds. Built in
    lesson 07.
    """
    ready = np.broadcast_to(np.asarray(start, dtype=float), rounds.world_size).copy()
    routes = Routes(rounds, network) if network.shared else None
    if routes and routes.meet():
        return SharedRun(rounds, routes, network.gamma, nbytes, itemsize, ready).finish_times()
    for _ in timed(rounds, network, nbytes, itemsize, ready, routes):
        pass
    return ready


def simulate_rounds(rounds: Rounds, network: Network, nbytes: int, itemsize: int, start: Start) -> Trace:
    """Every message of every round as two events; for some hundred ranks."""
    ready = np.broadcast_to(np.asarray(start, dtype=float), rounds.world_size).copy()
    events, count = [], Counter()
    for one, begin, end, sizes in timed(rounds, network, nbytes, itemsize, ready):
        rows = np.broadcast_arrays(one.source, one.to, begin, end, sizes, one.first, one.last)
        for source, to, begun, ended, size, first, last in zip(*(row.tolist() for row in rows), strict=True):
            shared = {
                "end": ended,
                "bytes": size,
                "sequence": count[source, to],
                "label": label(chunk_range(first, last)),
            }
            count[source, to] += 1
            for rank, verb, other in ((source, "send", to), (to, "recv", source)):
                at = float(ready[rank])
                events.append(Event(rank, verb, at, peers=(other,), waiting=begun - at, **shared))
    events.sort(key=lambda event: (event.start, event.rank))
    return Trace(rounds.world_size, tuple(events))


def timed(
    rounds: Rounds,
    network: Network,
    nbytes: int,
    itemsize: int,
    ready: np.ndarray,
    routes: Routes | None = None,
) -> Iterator[tuple[Round, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield each round with its messages' begin, end and bytes, [M]; then moves `ready` on, [R].

    Every message goes at the network's pace, or at that of its route.
    """
    alpha: float | np.ndarray = network.alpha
    beta: float | np.ndarray = network.beta
    length = nbytes // itemsize
    for one in rounds.rounds():
        size = itemsize * (
            boundary(length, rounds.chunks, one.last) - boundary(length, rounds.chunks, one.first)
        )
        if routes:
            alpha, beta = routes.pace(one.source, one.to)
        begin = np.maximum(ready[one.source], ready[one.to])
        end = begin + (alpha + size * beta)
        yield one, begin, end, size
        after = ready.copy()  # a rank that sends and receives is done when both are
        after[one.source] = end
        after[one.to] = np.maximum(after[one.to], end) + (size * network.gamma if one.add else 0)
        ready[:] = after
