"""All-reduce in a binomial tree: reduce to rank 0, then broadcast from it. Built in lesson 07.

R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH",
International Journal of High Performance Computing Applications 19(1), 2005.
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist

from labkit.schedule import Round, Rounds, Schedule


def all_reduce_tree(x: torch.Tensor) -> None:
    """Sum x over all ranks, in place, in 2 log2(R) steps (rounded up) that each carry the whole of x.

    x has the same shape and dtype on every rank, and every rank calls. Built in lesson 07.
    """
    rank, world_size, received = dist.get_rank(), dist.get_world_size(), x.clone()
    distances = [2**n for n in range((world_size - 1).bit_length())]
    for distance in distances:  # reduce: the leaves first
        if rank % (2 * distance) == distance:
            dist.send(x, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            dist.recv(received, rank + distance)
            x += received
    for distance in reversed(distances):  # broadcast: the root first
        if rank % (2 * distance) == distance:
            dist.recv(x, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            dist.send(x, rank + distance)


def tree_rounds(world_size: int) -> Rounds:
    """The same for any number of ranks, one round at a time. Built in lesson 07."""
    distances = [2**n for n in range((world_size - 1).bit_length())]

    def rounds() -> Iterator[Round]:
        for distance in distances:
            child = np.arange(distance, world_size, 2 * distance)
            yield Round(child, child - distance, 0, 1, add=True)
        for distance in reversed(distances):
            child = np.arange(distance, world_size, 2 * distance)
            yield Round(child - distance, child, 0, 1, add=False)

    return Rounds(world_size, 1, rounds)


def tree(world_size: int) -> Schedule:
    """The same as a schedule; ranks rest in the steps that do not need them. Built in lesson 07."""
    return tree_rounds(world_size).schedule()
