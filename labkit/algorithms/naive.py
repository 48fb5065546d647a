"""All-reduce with nothing but send and recv. Built in lesson 02."""

import torch
import torch.distributed as dist


def all_reduce_naive(x):
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
