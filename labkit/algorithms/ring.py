"""All-reduce in a ring: reduce-scatter, then all-gather. Built in lesson 06.

P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of
Parallel and Distributed Computing 69(2), 2009.
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist

from labkit.schedule import Round, Rounds, Schedule


def all_reduce_ring(x: torch.Tensor) -> None:
    """Sum a contiguous x over all ranks, in place; every rank sends 2 (R - 1) / R of it in 2 (R - 1) steps.

    x has the same shape and dtype on every rank, and every rank calls. Built in lesson 06.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        own = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(own)
        sending = dist.isend(chunks[(rank - step) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        if step < world_size - 1:  # reduce-scatter: after it, each rank has one chunk's whole sum
            own += received
        else:  # all-gather
            own.copy_(received)


def ring_rounds(world_size: int) -> Rounds:
    """The same for any number of ranks, one round at a time. Built in lesson 07."""
    rank = np.arange(world_size)
    right = (rank + 1) % world_size

    def rounds() -> Iterator[Round]:
        for n in range(2 * (world_size - 1)):
            chunk = (rank - n) % world_size
            yield Round(rank, right, chunk, chunk + 1, add=n < world_size - 1)

    return Rounds(world_size, world_size, rounds)


def ring(world_size: int) -> Schedule:
    """The same as a schedule. Built in lesson 07.

    >>> print(ring(2))
    step  rank 0                       rank 1
       0  send 0 to r1; add 1 from r1  send 1 to r0; add 0 from r0
       1  send 1 to r1; get 0 from r1  send 0 to r0; get 1 from r0
    """
    return ring_rounds(world_size).schedule()
