"""Large tensors of each verb but all_reduce: an exchange through memory that the ranks share, or messages.

What one rank has for each other goes as messages where there is no such memory: between hosts MPI would
pass most of it on by way of other ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from labkit.mpi.collectives import shared_memory
from labkit.mpi.collectives.copies import copied, readable
from labkit.mpi.collectives.exchanged import Exchange, Sum, as_bytes
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.expect import expect
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import carrier, dense, nbytes, operation
from labkit.mpi.wire.parts import Local, Plan, Step

MESSAGE = 1 << 19  # bytes
TAG = (1 << 14) + 2
"""Of these messages: no receive of the user's may get one."""


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


def all_gather(
    targets: Sequence[torch.Tensor], source: torch.Tensor, memory: SharedMemory, at_once: bool
) -> Plan:
    """`targets` may differ in length. The source may be this rank's own one (FSDP2 does that)."""
    given = as_bytes((yield from readable(source)))
    taken = [dense(target, read=False) for target in targets]
    places = [(rank, as_bytes(tensor)) for rank, (tensor, _) in enumerate(taken)]
    own = places[memory.rank][1].data_ptr() == given.data_ptr()
    if not own and any(_overlap(given, target) for _, target in places):
        given = given.clone()
    part = Exchange(
        places=memory.size,
        longest=max(target.numel() for _, target in places),
        sources=memory.others,
        takers=memory.others,
        gives=[(memory.rank, given)],
        # The own one from there, too, where it is in the cache.
        takes=[place for place in places if not own or place[0] != memory.rank],
    )
    yield from memory.exchange(part, at_once)
    for _, back in taken:
        yield from _back(back)


def gather(
    targets: Sequence[torch.Tensor], source: torch.Tensor, root: int, memory: SharedMemory, at_once: bool
) -> Plan:
    if memory.rank != root:
        given = as_bytes((yield from readable(source)))
        part = Exchange(memory.size, given.numel(), takers=[root], gives=[(memory.rank, given)])
        yield from memory.exchange(part, at_once)
        return
    _fitting("gather", targets, source)
    taken = {rank: dense(target, read=False) for rank, target in enumerate(targets) if rank != root}
    takes = [(rank, as_bytes(tensor)) for rank, (tensor, _) in taken.items()]
    yield from memory.exchange(
        Exchange(memory.size, source.nbytes, sources=memory.others, takes=takes), at_once
    )
    for _, back in taken.values():
        yield from _back(back)
    yield _own(source, targets[root])


def scatter(
    target: torch.Tensor, sources: Sequence[torch.Tensor], root: int, memory: SharedMemory, at_once: bool
) -> Plan:
    if memory.rank != root:
        taken, back = dense(target, read=False)
        part = Exchange(memory.size, taken.nbytes, sources=[root], takes=[(memory.rank, as_bytes(taken))])
        yield from memory.exchange(part, at_once)
        yield from _back(back)
        return
    _fitting("scatter", sources, target)
    gives = []
    for rank, source in enumerate(sources):
        if rank != root:
            gives.append((rank, as_bytes((yield from readable(source)))))
    yield from memory.exchange(
        Exchange(memory.size, target.nbytes, takers=memory.others, gives=gives), at_once
    )
    yield _own(sources[root], target)


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
    if any(_overlap(total, source) for source in given):
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


def gather_messages(
    targets: Sequence[torch.Tensor], source: torch.Tensor, root: int, memory: SharedMemory
) -> Plan:
    """Each rank's tensor straight to where the root has it; MPI would pass many of them on, twice."""
    if memory.rank != root:
        yield steps.send((yield from readable(source)), root, TAG)
        return
    _fitting("gather", targets, source)
    for rank in memory.others:
        yield _received(targets[rank], rank)
    yield _own(source, targets[root])


def scatter_messages(
    target: torch.Tensor, sources: Sequence[torch.Tensor], root: int, memory: SharedMemory
) -> Plan:
    if memory.rank != root:
        yield _received(target, root)
        return
    _fitting("scatter", sources, target)
    for rank in memory.others:
        yield steps.send((yield from readable(sources[rank])), rank, TAG)
    yield _own(sources[root], target)


def is_message(nbytes: int) -> bool:
    """Whether so much goes from one rank to another as a message; only the two know how much it is."""
    return nbytes >= MESSAGE and shared_memory.POSSIBLE


def all_to_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], rank: int) -> Plan:
    """What goes as messages, and a copy of the own one, for which MPI takes longer."""
    size = len(sources)
    expect("all_to_all", targets[rank].numel(), sources[rank].numel(), f"output {rank}")
    for other in [(rank + away) % size for away in range(1, size)]:
        if is_message(nbytes(targets[other])):
            yield _received(targets[other], other)
    for other in [(rank - away) % size for away in range(1, size)]:
        if is_message(nbytes(sources[other])):
            given = yield from readable(sources[other])
            yield steps.send(given, other, TAG)
    if is_message(nbytes(sources[rank])):
        yield _own(sources[rank], targets[rank])


def _received(target: torch.Tensor, rank: int) -> Step:
    taken, back = dense(target.detach(), read=False)
    step = steps.receive(taken, rank, TAG)
    step.finish = back
    return step


def _back(back: Callable[[], object] | None) -> Plan:
    if back is not None:
        yield Local(back)


def _own(source: torch.Tensor, target: torch.Tensor) -> Local:
    return copied(source.reshape(target.shape), target.detach())


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two contiguous tensors."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes


def _fitting(verb: str, tensors: Sequence[torch.Tensor], one: torch.Tensor) -> None:
    for rank, tensor in enumerate(tensors):
        expect(verb, tensor.numel(), one.numel(), f"numbers for rank {rank}", one, tensor)
