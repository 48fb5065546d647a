"""What each collective does with tensors, as a plan: the parts that a Work takes one after another.

A plan makes memory and says what comes next. Copies and sums are parts of their own, or the `finish` of the
step that they follow. `memory` knows how many ranks there are and which this one is. Where all are on one
host, what is large and the same for all, or reduced, goes through it (`collectives.large`). What one rank has
for each other goes as messages if it is large (`collectives.as_messages`).

Elsewhere large all_reduces are cut into pieces that a Work keeps two at a time in flight: while MPI moves one
piece the next is summed, and each piece stays in the cache.
"""

from collections.abc import Sequence

import torch

from labkit.mpi.collectives import as_messages, chain, large
from labkit.mpi.collectives.copies import added, copied, handing_over, joined, readable, spread
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import carrier, dense, nbytes, operation
from labkit.mpi.wire.parts import PAUSE, Local, Plan

PIECE = 1 << 20  # bytes
WINDOW = 2


def all_reduce(tensors: Sequence[torch.Tensor], op: str, memory: SharedMemory, at_once: bool) -> Plan:
    for tensor in tensors:
        if tensor.is_sparse:
            yield from _sparse_all_reduce(tensor, op, memory)
            continue
        numbers, back = dense(tensor, read=False)
        if back is not None:
            yield copied(tensor, numbers)
        if (yield from memory.open(numbers.nbytes, numbers.dtype)):
            operation(op, carrier(numbers.dtype))  # refuses what the dtype does not allow
            plain = numbers.dim() == 1 and not numbers.requires_grad
            flat = numbers if plain else numbers.detach().view(-1)  # which costs as much as a small copy
            yield from memory.all_reduce(flat, op, at_once)
            if back is not None:
                yield Local(back)
            continue
        pieces = _pieces(numbers)
        for piece in pieces:
            carried, dtype = piece, carrier(piece.dtype)
            if dtype != piece.dtype:
                carried = torch.empty(piece.shape, dtype=dtype)
                yield copied(piece, carried)
            step = steps.all_reduce(carried, op)
            step.finish = handing_over(carried, piece, op, memory.size, back if piece is pieces[-1] else None)
            yield step


def _sparse_all_reduce(tensor: torch.Tensor, op: str, memory: SharedMemory) -> Plan:
    """Each rank gets the indices and values of all, which need not be as many, and adds them by itself."""
    given = tensor.detach().coalesce()
    own = torch.tensor([given._nnz()])
    counts = torch.empty(memory.size, dtype=torch.int64)
    yield from all_gather_into(counts, own, memory)
    yield PAUSE
    parts = []
    for part in given.indices().t().contiguous(), given.values().contiguous():
        parts.append([part.new_empty((int(n), *part.shape[1:])) for n in counts])
        yield from all_gather(parts[-1], part, memory)
    yield PAUSE
    yield Local(added, tensor, *parts, op)


def reduce(tensor: torch.Tensor, op: str, root: int, memory: SharedMemory, at_once: bool) -> Plan:
    if (yield from memory.open(nbytes(tensor), tensor.dtype)):
        yield from large.reduce(tensor, op, root, memory, at_once)
        return
    if memory.apart(nbytes(tensor), tensor.dtype):
        yield from chain.reduce(tensor, op, root, memory.rank, memory.hosts)
        return
    given = yield from readable(tensor, carrier(tensor.dtype))
    step = steps.reduce(given, op, root, memory.rank)
    if memory.rank == root:  # elsewhere MPI only reads, and the caller's tensor stays as it is
        step.finish = handing_over(given, tensor, op, memory.size)
    yield step


def broadcast(tensors: Sequence[torch.Tensor], root: int, memory: SharedMemory, at_once: bool) -> Plan:
    for tensor in tensors:
        if (yield from memory.open(nbytes(tensor))):
            yield from large.broadcast(tensor, root, memory, at_once)
        elif memory.rank == root:
            given = yield from readable(tensor)
            yield steps.broadcast(given, root)
        else:
            taken, back = dense(tensor, read=False)
            step = steps.broadcast(taken, root)
            step.finish = back
            yield step


def all_gather_into(target: torch.Tensor, source: torch.Tensor, memory: SharedMemory) -> Plan:
    taken, back = dense(target, read=False)
    if not memory.one_host and as_messages.worth(nbytes(target)):
        blocks = taken.detach().view(-1).split(source.numel())
        yield from as_messages.all_gather(blocks, source, memory.rank, memory.hosts)
        if back is not None:
            yield PAUSE
            yield Local(back)
        return
    given = yield from readable(source)
    step = steps.all_gather(given, taken, memory.rank)
    step.finish = back
    yield step


def all_gather(targets: Sequence[torch.Tensor], source: torch.Tensor, memory: SharedMemory) -> Plan:
    if as_messages.worth(sum(map(nbytes, targets))):
        yield from as_messages.all_gather(targets, source, memory.rank, memory.hosts)
        return
    given = yield from readable(source)
    counts = [t.numel() for t in targets]
    taken = torch.empty(sum(counts), dtype=source.dtype)
    step = steps.all_gather_uneven(given, taken, counts)
    step.finish = lambda: spread(taken, targets)
    yield step


def gather(targets: Sequence[torch.Tensor], source: torch.Tensor, root: int, memory: SharedMemory) -> Plan:
    if as_messages.worth(memory.size * nbytes(source)):
        yield from as_messages.gather(targets, source, root, memory.rank)
        return
    given = yield from readable(source)
    taken = torch.empty(sum(t.numel() for t in targets), dtype=source.dtype) if targets else None
    step = steps.gather(given, taken, root)
    if targets:
        step.finish = lambda: spread(taken, targets)
    yield step


def scatter(target: torch.Tensor, sources: Sequence[torch.Tensor], root: int, memory: SharedMemory) -> Plan:
    if as_messages.worth(memory.size * nbytes(target)):
        yield from as_messages.scatter(target, sources, root, memory.rank)
        return
    given = None
    if sources:
        given = yield from joined(sources)
    taken, back = dense(target, read=False)
    step = steps.scatter(given, taken, root)
    step.finish = back
    yield step


def reduce_scatter(
    target: torch.Tensor, source: torch.Tensor, op: str, memory: SharedMemory, at_once: bool
) -> Plan:
    """`source` is a flat tensor of blocks, one for each rank."""
    if (yield from memory.open(nbytes(source), source.dtype)):
        whole = yield from readable(source)
        yield from large.reduce_scatter(
            target, whole.detach().view(memory.size, -1).unbind(), op, memory, at_once
        )
        return
    given = yield from readable(source, carrier(source.dtype))
    total, _ = dense(target, read=False)
    first, here = given.data_ptr(), total.data_ptr()
    # FSDP writes into its own input: MPI forbids it.
    if given.dtype != total.dtype or first <= here < first + given.nbytes:
        total = torch.empty(total.shape, dtype=given.dtype)
    step = steps.reduce_scatter(given, total, op)
    step.finish = handing_over(total, target, op, memory.size)
    yield step


def reduce_scatter_list(
    target: torch.Tensor, sources: Sequence[torch.Tensor], op: str, memory: SharedMemory, at_once: bool
) -> Plan:
    """Like reduce_scatter from a list; where the sizes differ, every rank reduces every block."""
    if len({t.numel() for t in sources}) == 1:
        if (yield from memory.open(sum(map(nbytes, sources)), target.dtype)):
            yield from large.reduce_scatter(target, sources, op, memory, at_once)
            return
        source = yield from joined(sources)
        yield from reduce_scatter(target, source, op, memory, at_once)
        return
    for owner, source in enumerate(sources):
        given = yield from readable(source, carrier(source.dtype), own=True)
        step = steps.reduce(given, op, owner, memory.rank)
        if owner == memory.rank:
            step.finish = handing_over(given, target, op, memory.size)
        yield step


def all_to_all_single(
    target: torch.Tensor,
    source: torch.Tensor,
    take: Sequence[int],
    give: Sequence[int],
    even: bool,
    rank: int,
) -> Plan:
    """`even`: nobody said how many elements go to each rank, so that it is as many to all."""
    given = yield from readable(source)
    taken, back = dense(target, read=False)
    if even:
        step = steps.all_to_all_even(given, taken, len(give))
    elif any(as_messages.worth(n * source.itemsize) for n in (*take, *give)):
        yield from all_to_all(taken.detach().view(-1).split(take), given.detach().view(-1).split(give), rank)
        if back is not None:
            yield PAUSE
            yield Local(back)
        return
    else:
        step = steps.all_to_all(given, taken, give, take)
    step.finish = back
    yield step


def all_to_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], rank: int) -> Plan:
    """What is large goes as messages, which both ends know; all ranks meet for the rest."""
    small = [t for t in sources if not as_messages.worth(nbytes(t))]
    wanted = [t for t in targets if not as_messages.worth(nbytes(t))]
    given = (yield from joined(small)) if small else torch.empty(0, dtype=sources[0].dtype)
    taken = torch.empty(sum(t.numel() for t in wanted), dtype=given.dtype)
    step = steps.all_to_all(given, taken, _small(sources), _small(targets))
    step.finish = lambda: spread(taken, wanted)
    yield step
    yield from as_messages.all_to_all(targets, sources, rank)


def blocks(tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
    """Elements for each rank, from split sizes along dimension 0 or in equal parts."""
    if not splits:
        return [tensor.numel() // size] * size
    row = tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 1
    return [n * row for n in splits]


def _small(tensors: Sequence[torch.Tensor]) -> list[int]:
    """The length of each; 0 of what goes as a message."""
    return [0 if as_messages.worth(nbytes(t)) else t.numel() for t in tensors]


def _pieces(numbers: torch.Tensor) -> Sequence[torch.Tensor]:
    if numbers.nbytes <= 4 * PIECE:
        return [numbers]
    return numbers.detach().view(-1).split(PIECE // carrier(numbers.dtype).itemsize)
