"""All-reduce by recursive halving, then recursive doubling. Built in lesson 07.

R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; R. Thakur, R. Rabenseifner and
W. Gropp, "Optimization of collective communication operations in MPICH", International Journal of High
Performance Computing Applications 19(1), 2005.
"""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np
import torch
import torch.distributed as dist

from labkit.schedule import Round, Rounds, Schedule


def all_reduce_halving_doubling(x: torch.Tensor) -> None:
    """Sum a contiguous x over all ranks, in place, in 2 log2(R) steps; each rank sends 2 (R - 1) / R of it.

    Where R is no power of two, the ranks beyond the largest power P give their x to rank - P first, and get
    the sum from it in the end. x has the same shape and dtype on every rank, and every rank calls. Built in
    lesson 07.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    power = 2 ** (world_size.bit_length() - 1)
    if rank >= power:
        dist.send(x, rank - power)
        dist.recv(x, rank - power)
        return
    if rank + power < world_size:
        received = torch.empty_like(x)
        dist.recv(received, rank + power)
        x += received
    _halve_and_double(x.view(-1), rank, power)
    if rank + power < world_size:
        dist.send(x, rank + power)


def _halve_and_double(x: torch.Tensor, rank: int, power: int) -> None:
    distances = [power >> n for n in range(1, power.bit_length())]
    for distance in distances:
        mine, theirs = (_block(x, power, r, distance) for r in (rank, rank ^ distance))
        received = torch.empty_like(mine)
        sending = dist.isend(theirs, rank ^ distance)
        dist.recv(received, rank ^ distance)
        sending.wait()
        mine += received
    for distance in reversed(distances):
        mine, theirs = (_block(x, power, r, distance) for r in (rank, rank ^ distance))
        sending = dist.isend(mine, rank ^ distance)
        dist.recv(theirs, rank ^ distance)
        sending.wait()


def _block(x: torch.Tensor, power: int, rank: int, length: int) -> torch.Tensor:
    """Of x in `power` chunks the `length` among which is the rank's own."""
    edges = list(accumulate(map(len, x.tensor_split(power)), initial=0))
    first = rank // length * length
    return x[edges[first] : edges[first + length]]


def halving_doubling_rounds(world_size: int) -> Rounds:
    """The same for any number of ranks, one round at a time. Built in lesson 07."""
    power = 2 ** (world_size.bit_length() - 1)
    rank, excess = np.arange(power), np.arange(power, world_size)
    distances = [power >> n for n in range(1, power.bit_length())]
    phases = [(d, True) for d in distances] + [(d, False) for d in reversed(distances)]

    def rounds() -> Iterator[Round]:
        if len(excess):
            yield Round(excess, excess - power, 0, power, add=True)
        for distance, add in phases:
            first = (rank ^ distance if add else rank) // distance * distance
            yield Round(rank, rank ^ distance, first, first + distance, add)
        if len(excess):
            yield Round(excess - power, excess, 0, power, add=False)

    return Rounds(world_size, power, rounds)


def halving_doubling(world_size: int) -> Schedule:
    """The same as a schedule; a message of several chunks is one `range` of them. Built in lesson 07."""
    return halving_doubling_rounds(world_size).schedule()
