"""Rings of any number of ranks: their rounds are all alike to who moves on with the chunks."""

from __future__ import annotations

import numpy as np

from labkit import LabError
from labkit.schedule.chunks import boundary
from labkit.simulate.network import Network
from labkit.simulate.recurrence import Start

LOOK = 64
"""After so many rounds it is seen whether the ranks move in step."""
IN_STEP = 1e-10
"""Ranks move in step when their last round took all of them as long, but for this part of it."""


def ring_finish_times(
    world_size: int, network: Network, nbytes: int, *, itemsize: int = 4, start: Start = 0.0
) -> np.ndarray:
    """The `finish_times` of `ring_rounds(world_size)`, [R], for tens of thousands of ranks.

    Chunk q begins at rank q and goes one rank to the right in each round. With `ready[q]` the time when its
    holder is ready, every round is the same map from `ready` to `ready`, of maxima and sums: once a round has
    made all ranks later by the same time, each round after it does so too (F. Baccelli, G. Cohen,
    G. J. Olsder and J.-P. Quadrat, Synchronization and Linearity, Wiley, 1992, chapter 3). LabError if the
    network shares links.
    """
    if network.shared:
        asked = f"a ring of {world_size:,} ranks without a queue on any link"
        raise LabError(asked, "a network on which ranks share links", "finish_times(ring_rounds(...), ...)")
    ready = np.broadcast_to(np.asarray(start, dtype=float), world_size).copy()
    if world_size == 1:
        return ready
    chunk = np.arange(world_size)
    length = nbytes // itemsize
    size = itemsize * (boundary(length, world_size, chunk + 1) - boundary(length, world_size, chunk))
    cost, adding = network.alpha + size * network.beta, size * network.gamma
    for added in (adding, np.zeros(world_size)):  # reduce-scatter, then all-gather
        ready = _turn(ready, cost, added, world_size - 1)
    return np.roll(ready, 2 * (world_size - 1))  # chunk q is at rank q + 2 (R - 1) in the end


def _turn(ready: np.ndarray, cost: np.ndarray, added: np.ndarray, rounds: int) -> np.ndarray:
    """`ready` after so many rounds; chunk q is sent in `cost[q]` seconds, and added in `added[q]`."""
    ranks, adds = len(ready), bool(added.any())
    begin, since = 0.0, np.append(ready, ready[0])  # the ring closes: the last is the first
    ended, before = np.empty(ranks + 1), np.empty(ranks)
    for n in range(1, rounds + 1):
        look = n % LOOK == 0
        if look:
            before[:] = since[:-1]
        np.maximum(since[:-1], since[1:], out=ended[:-1])
        ended[:-1] += cost
        ended[-1] = ended[0]
        np.maximum(ended[:-1], ended[1:], out=since[:-1])
        if adds:
            since[:-1] += added
        since[-1] = since[0]
        if look:
            step = since[:-1] - before
            if np.ptp(step) <= IN_STEP * step.max():
                return begin + since[:-1] + (rounds - n) * step.mean()
            begin += since[0]  # what is far from 0 is coarse
            since -= since[0]
    return begin + since[:-1]
