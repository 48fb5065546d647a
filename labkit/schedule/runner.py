"""Run a schedule on real ranks, with plain torch.distributed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labkit import LabError
from labkit.schedule.access import freed, target
from labkit.schedule.chunks import Chunk, boundary
from labkit.schedule.counts import chunk_bytes
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Compute, Copy, Recv, Reduce, Send

if TYPE_CHECKING:
    import torch


def run(
    schedule: Schedule, x: torch.Tensor, *, group: Any = None, compute: Callable | None = None, tag: int = 0
) -> dict:
    """Do this rank's steps on its contiguous tensor x, in place; a collective of all ranks of the group.

    x has the same shape and dtype on every rank. A `Compute` calls `compute(operation, memory)`, which reads
    and fills `memory`, a dict from names of buffers to tensors; without it a `Compute` only takes its time.
    Returns that dict. LabError if the group has another number of ranks, or x is not contiguous. Built in
    lesson 07.
    """
    import torch.distributed as dist

    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if world_size != schedule.world_size:
        raise LabError(
            repr(schedule), f"a group of {world_size} ranks", "make the schedule for that many ranks"
        )
    if not x.is_contiguous():
        raise LabError("to run a schedule in place", "a tensor that is not contiguous", "pass x.contiguous()")
    flat = x.view(-1)
    memory: dict = {}

    def at(chunk: Chunk) -> torch.Tensor:
        if isinstance(chunk, str):
            return memory[chunk]
        first, last = (chunk.start, chunk.stop) if isinstance(chunk, range) else (chunk, chunk + 1)
        cut = flat.numel(), schedule.chunks
        return flat[boundary(*cut, first) : boundary(*cut, last)]

    def room(chunk: Chunk) -> torch.Tensor:
        """Where a chunk can arrive; a buffer that does not exist yet is made."""
        if isinstance(chunk, str):
            size = chunk_bytes(schedule, chunk, flat.nbytes, flat.itemsize) // flat.itemsize
            memory.setdefault(chunk, flat.new_empty(size))
        return at(chunk)

    def add(chunk: Chunk, arrived: torch.Tensor) -> None:
        if isinstance(chunk, str) and chunk not in memory:
            memory[chunk] = arrived.clone()
        else:
            at(chunk).add_(arrived)

    def message(call: Callable, tensor: torch.Tensor, other: int) -> dist.P2POp:
        return dist.P2POp(call, tensor, group=group, tag=tag, group_peer=other)

    posted = []
    for step in schedule.steps[rank]:
        transfers, arrived = [], []
        for operation in step:
            match operation:
                case Send(to=other, chunk=chunk, wait=False):
                    posted += dist.batch_isend_irecv([message(dist.isend, at(chunk), other)])
                case Send(to=other, chunk=chunk):
                    transfers.append(message(dist.isend, at(chunk), other))
                case Recv(source=other):
                    transfers.append(message(dist.irecv, room(target(operation)), other))
                case Reduce(source=int(other), chunk=chunk):
                    size = chunk_bytes(schedule, chunk, flat.nbytes, flat.itemsize) // flat.itemsize
                    arrived.append((operation, flat.new_empty(size)))
                    transfers.append(message(dist.irecv, arrived[-1][1], other))
        works = dist.batch_isend_irecv(transfers) if transfers else []
        for operation in step:
            if isinstance(operation, Compute):
                (compute or _take_time)(operation, memory)
        for work in works:
            work.wait()
        for operation in step:
            match operation:
                case Copy(chunk=chunk, into=into):
                    room(into).copy_(at(chunk))
                case Reduce(source=None, chunk=chunk):
                    add(target(operation), at(chunk))
        for operation, tensor in arrived:
            add(target(operation), tensor)
        for operation in step:
            for name in freed(operation):
                memory.pop(name, None)
    for work in posted:
        work.wait()
    return memory


def _take_time(operation: Compute, memory: dict) -> None:
    time.sleep(operation.seconds)
