"""Large tensors of broadcast, reduce and reduce_scatter: an exchange through memory that the ranks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from labkit.mpi.collectives.copies import copied, overlap, readable
from labkit.mpi.collectives.exchanged import Exchange, Sum, as_bytes
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.wire.buffers import carrier, dense, operation
from labkit.mpi.wire.parts import Local, Plan


def broadcast(tensor: torch.Tensor, root: int, memory: SharedMemory, at_once: bool) -> Plan:
    if memory.rank == root:
        given = as_bytes((yield from readable(tensor)))
        yield from memory.exchange(
            Exchange(1, given.numel(), takers=memory.others, gives=[(0, given)]), at_once
        )
        return
    taken, back = dense(tensor, read=False)
    yield from memory.exchange(
        Exchange(1, taken.nbytes, sources=[root], takes=[(0, as_bytes(taken))]), at_once
    )
    yield from _back(back)


def reduce(tensor: torch.Tensor, op: str, root: int, memory: SharedMemory, at_once: bool) -> Plan:
    operation(op, carrier(tensor.dtype))  # refuses what the dtype does not allow
    given = yield from readable(tensor)
    flat, dtype = given.detach().view(-1), given.dtype
    if memory.rank != root:
        part = Exchange(memory.size, flat.numel(), dtype, takers=[root], gives=[(memory.rank, flat)])
        yield from memory.exchange(part, at_once)
        return
    others = memory.others
    part = Exchange(memory.size, flat.numel(), dtype, sources=others, sums=[Sum(flat, flat, others, op)])
    yield from memory.exchange(part, at_once)
    if given is not tensor:
        yield copied(given, tensor.detach())


def reduce_scatter(
    target: torch.Tensor, sources: Sequence[torch.Tensor], op: str, memory: SharedMemory, at_once: bool
) -> Plan:
    """[n] of each source, one for each rank -> [n]. The target may lie in a source, as FSDP has it."""
    operation(op, carrier(target.dtype))
    me, size = memory.rank, memory.size
    given = []
    for source in sources:
        given.append((yield from readable(source)).detach().view(-1))
    total, back = dense(target, read=False)
    if any(overlap(total, source) for source in given):
        total = torch.empty(target.shape, dtype=target.dtype)
        back = partial(target.detach().copy_, total)
    flat = total.detach().view(-1)
    part = Exchange(
        places=size * size,
        longest=flat.numel(),
        dtype=flat.dtype,
        sources=memory.others,
        takers=memory.others,
        gives=[(me * size + rank, source) for rank, source in enumerate(given) if rank != me],
        sums=[Sum(flat, given[me], [rank * size + me for rank in memory.others], op)],
    )
    yield from memory.exchange(part, at_once)
    yield from _back(back)


def _back(back: Callable[[], object] | None) -> Plan:
    if back is not None:
        yield Local(back)
