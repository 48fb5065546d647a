"""One call of each collective, for a torch.distributed group and for raw blocking mpi4py.

A call takes a counter and uses it as the root: with a root that rotates no rank can run ahead of the
others, so the mean over a batch of calls is the time of one call and not that of filling a buffer.
A ping-pong is between the first rank and the last, which are on two hosts where there are several.
`nbytes` is the size of the whole tensor: what all_gather puts out, what reduce_scatter takes in.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from labkit.algorithms.ring import ring
from labkit.schedule import run

if TYPE_CHECKING:  # importing it would start MPI
    from mpi4py import MPI

Call = Callable[[int], object]


def tensors(nbytes: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole tensor and one rank's part of it, float32 zeros, so that sums stay finite for ever."""
    n = max(nbytes // 4 // size, 1)
    return torch.zeros(n * size), torch.zeros(n)


def torch_call(verb: str, nbytes: int, group: dist.ProcessGroup) -> Call:
    """The call as a script writes it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, part = tensors(nbytes, size)
    parts = list(torch.zeros_like(whole).chunk(size))

    def ping_pong(i: int) -> None:
        if rank == 0:
            dist.send(whole, size - 1, group=group)
            dist.recv(whole, size - 1, group=group)
        elif rank == size - 1:
            dist.recv(whole, 0, group=group)
            dist.send(whole, 0, group=group)

    def gather(i: int) -> None:
        dist.gather(part, parts if i % size == rank else None, i % size, group=group)

    def scatter(i: int) -> None:
        dist.scatter(part, parts if i % size == rank else None, i % size, group=group)

    other = torch.zeros_like(whole)
    return {
        "all_reduce": lambda i: dist.all_reduce(whole, group=group),
        "broadcast": lambda i: dist.broadcast(whole, i % size, group=group),
        "reduce": lambda i: dist.reduce(whole, i % size, group=group),
        "all_gather": lambda i: dist.all_gather_single(whole, part, group=group),
        "reduce_scatter": lambda i: dist.reduce_scatter_single(part, whole, group=group),
        "gather": gather,
        "scatter": scatter,
        "all_to_all": lambda i: dist.all_to_all_single(other, whole, group=group),
        "ping_pong": ping_pong,
        "barrier": lambda i: dist.barrier(group=group),
    }[verb]


def raw_call(verb: str, nbytes: int, comm: "MPI.Comm") -> Call:
    """The same call in blocking mpi4py, as directly as it can be written."""
    from mpi4py import MPI

    rank, size = comm.Get_rank(), comm.Get_size()
    whole, part = (t.numpy() for t in tensors(nbytes, size))
    other = torch.zeros_like(torch.from_numpy(whole)).numpy()  # numpy itself would ask for huge pages

    def reduce(i: int) -> None:
        root = i % size == rank
        comm.Reduce(MPI.IN_PLACE if root else whole, whole if root else None, MPI.SUM, i % size)

    def ping_pong(i: int) -> None:
        if rank == 0:
            comm.Send(whole, size - 1)
            comm.Recv(whole, size - 1)
        elif rank == size - 1:
            comm.Recv(whole, 0)
            comm.Send(whole, 0)

    return {
        "all_reduce": lambda i: comm.Allreduce(MPI.IN_PLACE, whole),
        "broadcast": lambda i: comm.Bcast(whole, i % size),
        "reduce": reduce,
        "all_gather": lambda i: comm.Allgather(part, whole),
        "reduce_scatter": lambda i: comm.Reduce_scatter_block(whole, part),
        "gather": lambda i: comm.Gather(part, whole if i % size == rank else None, i % size),
        "scatter": lambda i: comm.Scatter(whole if i % size == rank else None, part, i % size),
        "all_to_all": lambda i: comm.Alltoall(whole, other),
        "ping_pong": ping_pong,
        "barrier": lambda i: comm.Barrier(),
    }[verb]


def ring_call(nbytes: int, group: dist.ProcessGroup) -> Call:
    """An all_reduce as a ring over all ranks in their order, in messages (lesson 06)."""
    whole, schedule = tensors(nbytes, dist.get_world_size())[0], ring(dist.get_world_size())
    return lambda i: run(schedule, whole, group=group)
