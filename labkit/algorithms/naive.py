"""All-reduce with nothing but send and recv. Built in lesson 02."""

import torch
import torch.distributed as dist

from labkit.schedule import Copy, Reduce, Schedule, Send


def all_reduce_naive(x: torch.Tensor) -> None:
    """Sum x over all ranks, in place: each rank in its turn sends its x to all others.

    x has the same shape and dtype on every rank, and every rank calls. R ranks send R (R - 1)
    messages of the size of x. All ranks add in the order of the ranks, so their sums are equal
    bit for bit. Built in lesson 02.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total, y = torch.zeros_like(x), torch.empty_like(x)
    for sender in range(world_size):
        if rank == sender:
            for other in range(world_size):
                if other != rank:
                    dist.send(x, dst=other)
            total += x
        else:
            dist.recv(y, src=sender)
            total += y
    x.copy_(total)


def naive(world_size: int) -> Schedule:
    """The same as a schedule: what each rank has added up is its buffer "total". Built in lesson 07."""
    steps: list[list] = [[] for _ in range(world_size)]
    for sender in range(world_size):
        steps[sender].append((Reduce(None, 0, into="total"),))
        for other in range(world_size):
            if other != sender:
                steps[sender].append((Send(other, 0),))
                steps[other].append((Reduce(sender, 0, into="total"),))
    for own in steps:
        own.append((Copy("total", into=0),))
    return Schedule(steps)
