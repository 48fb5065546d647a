"""What each collective does with tensors, as a plan: the parts that a Work takes one after another.

A plan makes memory and says what comes next. Copies and sums are parts of their own, or the `finish` of the
step that they follow. `size` is the number of ranks, `rank` this one's place among them.

Large reductions are cut into pieces that a Work keeps two at a time in flight: while MPI moves one piece the
next is summed, and each piece stays in the cache.
"""

from collections.abc import Sequence

import torch

from labkit.mpi.collectives.copies import copied, handing_over, joined, readable, spread
from labkit.mpi.collectives.shared_memory import SharedMemory
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import carrier, dense, operation
from labkit.mpi.wire.parts import Local, Plan

PIECE = 1 << 20  # bytes
WINDOW = 2


def all_reduce(
    tensors: Sequence[torch.Tensor], op: str, size: int, memory: SharedMemory, at_once: bool
) -> Plan:
    for tensor in tensors:
        numbers, back = dense(tensor, read=False)
        if back is not None:
            yield copied(tensor, numbers)
        if memory.suits(numbers):
            yield from memory.map()
            if memory.mapped:
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
            step.finish = handing_over(carried, piece, op, size, back if piece is pieces[-1] else None)
            yield step


def reduce(tensor: torch.Tensor, op: str, root: int, rank: int, size: int) -> Plan:
    given = yield from readable(tensor, carrier(tensor.dtype))
    step = steps.reduce(given, op, root, rank)
    if rank == root:  # elsewhere MPI only reads, and the caller's tensor stays as it is
        step.finish = handing_over(given, tensor, op, size)
    yield step


def broadcast(tensors: Sequence[torch.Tensor], root: int, rank: int) -> Plan:
    for tensor in tensors:
        if rank == root:
            given = yield from readable(tensor)
            yield steps.broadcast(given, root)
        else:
            taken, back = dense(tensor, read=False)
            step = steps.broadcast(taken, root)
            step.finish = back
            yield step


def all_gather_into(target: torch.Tensor, source: torch.Tensor, rank: int) -> Plan:
    given = yield from readable(source)
    taken, back = dense(target, read=False)
    step = steps.all_gather(given, taken, rank)
    step.finish = back
    yield step


def all_gather(targets: Sequence[torch.Tensor], source: torch.Tensor) -> Plan:
    given = yield from readable(source)
    counts = [t.numel() for t in targets]
    taken = torch.empty(sum(counts), dtype=source.dtype)
    step = steps.all_gather_uneven(given, taken, counts)
    step.finish = lambda: spread(taken, targets)
    yield step


def gather(targets: Sequence[torch.Tensor], source: torch.Tensor, root: int) -> Plan:
    given = yield from readable(source)
    taken = torch.empty(sum(t.numel() for t in targets), dtype=source.dtype) if targets else None
    step = steps.gather(given, taken, root)
    if targets:
        step.finish = lambda: spread(taken, targets)
    yield step


def scatter(target: torch.Tensor, sources: Sequence[torch.Tensor], root: int) -> Plan:
    given = None
    if sources:
        given = yield from joined(sources)
    taken, back = dense(target, read=False)
    step = steps.scatter(given, taken, root)
    step.finish = back
    yield step


def reduce_scatter(target: torch.Tensor, source: torch.Tensor, op: str, size: int) -> Plan:
    """`source` is a flat tensor of `size` blocks, one for each rank."""
    given = yield from readable(source, carrier(source.dtype))
    total, _ = dense(target, read=False)
    first, here = given.data_ptr(), total.data_ptr()
    # FSDP writes into its own input: MPI forbids it.
    if given.dtype != total.dtype or first <= here < first + given.nbytes:
        total = torch.empty(total.shape, dtype=given.dtype)
    step = steps.reduce_scatter(given, total, op)
    step.finish = handing_over(total, target, op, size)
    yield step


def reduce_scatter_list(
    target: torch.Tensor, sources: Sequence[torch.Tensor], op: str, rank: int, size: int
) -> Plan:
    """Like reduce_scatter from a list; where the sizes differ, every rank reduces every block."""
    if len({t.numel() for t in sources}) == 1:
        source = yield from joined(sources)
        yield from reduce_scatter(target, source, op, size)
        return
    for owner, source in enumerate(sources):
        given = yield from readable(source, carrier(source.dtype), own=True)
        step = steps.reduce(given, op, owner, rank)
        if owner == rank:
            step.finish = handing_over(given, target, op, size)
        yield step


def all_to_all_single(
    target: torch.Tensor, source: torch.Tensor, take: Sequence[int], give: Sequence[int]
) -> Plan:
    given = yield from readable(source)
    taken, back = dense(target, read=False)
    step = steps.all_to_all(given, taken, give, take)
    step.finish = back
    yield step


def all_to_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Plan:
    given = yield from joined(sources)
    taken = torch.empty(sum(t.numel() for t in targets), dtype=given.dtype)
    step = steps.all_to_all(given, taken, [t.numel() for t in sources], [t.numel() for t in targets])
    step.finish = lambda: spread(taken, targets)
    yield step


def blocks(tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
    """Elements for each rank, from split sizes along dimension 0 or in equal parts."""
    if not splits:
        return [tensor.numel() // size] * size
    row = tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 1
    return [n * row for n in splits]


def _pieces(numbers: torch.Tensor) -> Sequence[torch.Tensor]:
    if numbers.nbytes <= 4 * PIECE:
        return [numbers]
    return numbers.detach().view(-1).split(PIECE // carrier(numbers.dtype).itemsize)
