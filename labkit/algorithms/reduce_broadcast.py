"""All-reduce by way of one rank: reduce to it, then broadcast from it. Built in lesson 02."""

import torch
import torch.distributed as dist


def reduce_to(root: int, x: torch.Tensor) -> None:
    """Leave the sum of x over all ranks in x on rank `root`; the others keep their x.

    x has the same shape and dtype on every rank, and every rank calls. Built in lesson 02.
    """
    if dist.get_rank() != root:
        dist.send(x, dst=root)
        return
    y = torch.empty_like(x)
    for other in range(dist.get_world_size()):
        if other != root:
            dist.recv(y, src=other)
            x += y


def broadcast_from(root: int, x: torch.Tensor) -> None:
    """Copy x of rank `root` into x on every other rank.

    x has the same shape and dtype on every rank, and every rank calls. Built in lesson 02.
    """
    if dist.get_rank() != root:
        dist.recv(x, src=root)
        return
    for other in range(dist.get_world_size()):
        if other != root:
            dist.send(x, dst=other)


def all_reduce_reduce_broadcast(x: torch.Tensor) -> None:
    """Sum x over all ranks, in place, by way of rank 0.

    x has the same shape and dtype on every rank, and every rank calls. R ranks send 2 (R - 1)
    messages of the size of x, all of them to or from rank 0. Built in lesson 02.
    """
    reduce_to(0, x)
    broadcast_from(0, x)
