"""Workers and one server, in time alone: when gradients come, how stale they are, how many are dropped.

The same rules as lessons 10 and 11 run on ranks. Messages and updates take no time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from labkit import LabError

Seconds = Callable[[int], float]
"""seconds(worker): how long this worker computes its next gradient. Workers are 1 to W, as ranks are."""


@dataclass(frozen=True)
class Arrival:
    """A gradient that reached the server at `time` (s), for weights that were `staleness` updates old."""

    time: float
    worker: int
    staleness: int


def asynchronous(workers: int, updates: int, seconds: Seconds) -> list[Arrival]:
    """Every gradient is an update, and its worker goes on with the weights after it. Lesson 10.

    >>> [a.staleness for a in asynchronous(3, 6, lambda worker: 1.0)]
    [0, 1, 2, 2, 2, 2]
    """
    under_way = _start(workers, seconds)
    pulled, arrivals = dict.fromkeys(range(1, workers + 1), 0), []
    for version in range(updates):
        now, worker = heapq.heappop(under_way)
        arrivals.append(Arrival(now, worker, version - pulled[worker]))
        pulled[worker] = version + 1
        heapq.heappush(under_way, (now + seconds(worker), worker))
    return arrivals


def first_of(workers: int, needed: int, updates: int, seconds: Seconds) -> list[float]:
    """The time of each update (s), if the first `needed` gradients for its weights make it. Lesson 11.

    A worker that comes too late begins anew with the weights there are: it cannot be told before it comes.
    LabError unless 1 <= needed <= workers.

    >>> first_of(2, 1, 3, lambda worker: 1.0 if worker == 1 else 2.5)
    [1.0, 2.0, 3.0]
    """
    if not 1 <= needed <= workers:
        raise LabError(f"the first {needed} gradients", f"{workers} workers", "needed from 1 to workers")
    under_way, times = _start(workers, seconds), []
    pulled = dict.fromkeys(range(1, workers + 1), 0)
    for version in range(updates):
        fresh: list[int] = []
        while len(fresh) < needed:
            now, worker = heapq.heappop(under_way)
            if pulled[worker] == version:
                fresh.append(worker)
            else:
                pulled[worker] = version
                heapq.heappush(under_way, (now + seconds(worker), worker))
        times.append(now)
        for worker in fresh:
            pulled[worker] = version + 1
            heapq.heappush(under_way, (now + seconds(worker), worker))
    return times


def _start(workers: int, seconds: Seconds) -> list[tuple[float, int]]:
    under_way = [(seconds(worker), worker) for worker in range(1, workers + 1)]
    heapq.heapify(under_way)
    return under_way
