"""What if: a recorded step of training on another network, with another number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from labkit import LabError
from labkit.algorithms.ring import ring_rounds
from labkit.schedule.rounds import Rounds
from labkit.simulate import Network, simulate
from labkit.trace import COMPUTE, Event, Trace


def replay(
    trace: Trace,
    network: Network,
    *,
    ranks: int | None = None,
    algorithm: Callable[[int], Rounds] = ring_rounds,
) -> Trace:
    """The trace that a recorded step would leave on `network`: its compute times, its all-reduces simulated.

    Record it with `lab.trace()` and without a limit. More ranks than recorded compute as long as the recorded
    ones do, in turn: the batch per rank stays. What a rank computes counts with the time that it took, also
    off the CPU. LabError for a step with other communication than all_reduce, or that ranks did not end
    alike. Built for lesson 05.
    """
    ranks = ranks or trace.world_size
    parts = [_parts(trace, rank) for rank in range(trace.world_size)]
    sizes = [tuple(size for _, size in own) for own in parts]
    if len(set(sizes)) > 1:
        found = (
            f"ranks whose all-reduces differ: {sizes[0]} and {next(s for s in sizes if s != sizes[0])} bytes"
        )
        raise LabError("a step to replay", found, "record whole steps, on all ranks")
    ready, events = np.zeros(ranks), []
    for n, size in enumerate(sizes[0]):
        begin = ready + [parts[rank % len(parts)][n][0] for rank in range(ranks)]
        events += [
            Event(rank, COMPUTE, start, end, cpu=end - start)
            for rank, (start, end) in enumerate(zip(ready.tolist(), begin.tolist(), strict=True))
            if end > start
        ]
        ready = begin.copy()
        if size:
            for event in simulate(algorithm(ranks), network, size, start=begin.tolist()).events:
                ready[event.rank] = max(ready[event.rank], event.end)
                events.append(replace(event, tag=n))  # messages of one all-reduce have one tag
    return Trace(ranks, tuple(sorted(events, key=lambda event: (event.start, event.rank))))


def _parts(trace: Trace, rank: int) -> list[tuple[float, int]]:
    """(seconds computed, bytes of the all-reduce after it) in their order; the last part has 0 bytes."""
    parts, computed = [], 0.0
    for event in sorted((e for e in trace.events if e.rank == rank), key=lambda e: (e.start, e.end)):
        if event.verb == COMPUTE:
            computed += event.end - event.start
        elif event.verb == "all_reduce":
            parts.append((computed, event.bytes))
            computed = 0.0
        elif event.verb != "barrier":
            fix = "record without lab.network, and only the step"
            raise LabError("a step of computing and all_reduce", f"{event.verb} on rank {rank}", fix)
    return [*parts, (computed, 0)]
