"""What each collective does with tensors, as steps on flat memory.

Each function yields steps; a step's `finish` writes results back where MPI could not write them
itself. `size` is the number of ranks, `rank` this one's place among them. Large reductions are
cut into pieces that a Work keeps two at a time in flight: while MPI moves one piece the next is
summed, and each piece stays in the cache.
"""

import torch

from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import average, carrier, dense, operation

PIECE = 1 << 20  # bytes
WINDOW = 2


def all_reduce(tensors, op, size, memory, at_once):
    for tensor in tensors:
        numbers, back = dense(tensor)
        if memory.suits(numbers) and (memory.bytes is not None or (yield from memory.map())):
            operation(op, carrier(numbers.dtype))  # refuses what the dtype does not allow
            plain = (
                numbers.dim() == 1 and not numbers.requires_grad
            )  # a view of it costs as much as a small copy
            flat = numbers if plain else numbers.detach().view(-1)
            yield from memory.all_reduce(flat, op, at_once)
            if back is not None:
                back()
            continue
        pieces = _pieces(numbers)
        for number, piece in enumerate(pieces):
            step = _reduced(piece, piece, op, size, lambda carried: steps.all_reduce(carried, op))
            if back is not None and number == len(pieces) - 1:
                step.finish = _both(step.finish, back)
            yield step


def reduce(tensor, op, root, rank, size):
    numbers, back = dense(tensor)
    here = rank == root
    # Where this rank is not the root MPI only reads, and the caller's tensor stays as it is.
    target = numbers if here else None
    step = _reduced(numbers, target, op, size, lambda carried: steps.reduce(carried, op, root, rank))
    if here:
        step.finish = _both(step.finish, back)
    yield step


def broadcast(tensors, root, rank):
    for tensor in tensors:
        numbers, back = dense(tensor, read=rank == root)
        step = steps.broadcast(numbers, root)
        step.finish = None if rank == root else back
        yield step


def all_gather_into(target, source, rank):
    given, _ = dense(source)
    taken, back = dense(target, read=False)
    step = steps.all_gather(given, taken, rank)
    step.finish = back
    yield step


def all_gather(targets, source):
    given, _ = dense(source)
    counts = [t.numel() for t in targets]
    taken = torch.empty(sum(counts), dtype=source.dtype)
    step = steps.all_gather_uneven(given, taken, counts)
    step.finish = lambda: _spread(taken, targets)
    yield step


def gather(targets, source, root):
    given, _ = dense(source)
    taken = torch.empty(sum(t.numel() for t in targets), dtype=source.dtype) if targets else None
    step = steps.gather(given, taken, root)
    if targets:
        step.finish = lambda: _spread(taken, targets)
    yield step


def scatter(target, sources, root):
    given = _joined(sources) if sources else None
    taken, back = dense(target, read=False)
    step = steps.scatter(given, taken, root)
    step.finish = back
    yield step


def reduce_scatter(target, source, op, size):
    """`source` is a flat tensor of `size` blocks, one for each rank."""
    given, _ = dense(source)
    taken, back = dense(target, read=False)
    carried = carrier(given.dtype)
    if carried != given.dtype:
        given = given.to(carried)
        total = torch.empty(taken.numel(), dtype=carried)
    elif given.data_ptr() <= taken.data_ptr() < given.data_ptr() + given.nbytes:
        total = torch.empty_like(taken)  # FSDP writes into its own input: MPI forbids it
    else:
        total = taken

    def finish():
        if op == "AVG":
            average(total, size)
        if total is not taken:
            taken.detach().copy_(total.view(taken.shape))
        if back is not None:
            back()

    step = steps.reduce_scatter(given, total, op)
    step.finish = finish
    yield step


def reduce_scatter_list(target, sources, op, rank, size):
    """Like reduce_scatter from a list; where the sizes differ, every rank reduces every block."""
    if len({t.numel() for t in sources}) == 1:
        yield from reduce_scatter(target, _joined(sources), op, size)
        return
    for owner, source in enumerate(sources):
        mine = dense(source)[0].clone()
        step = _reduced(
            mine, mine if owner == rank else None, op, size, lambda t, to=owner: steps.reduce(t, op, to, rank)
        )
        if owner == rank:
            step.finish = _both(step.finish, lambda kept=mine: target.detach().copy_(kept.view(target.shape)))
        yield step


def all_to_all_single(target, source, take, give):
    given, _ = dense(source)
    taken, back = dense(target, read=False)
    step = steps.all_to_all(given, taken, give, take)
    step.finish = back
    yield step


def all_to_all(targets, sources):
    taken = torch.empty(sum(t.numel() for t in targets), dtype=sources[0].dtype)
    step = steps.all_to_all(
        _joined(sources), taken, [t.numel() for t in sources], [t.numel() for t in targets]
    )
    step.finish = lambda: _spread(taken, targets)
    yield step


def blocks(tensor, splits, size):
    """Elements for each rank, from split sizes along dimension 0 or in equal parts."""
    if not splits:
        return [tensor.numel() // size] * size
    row = tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 1
    return [n * row for n in splits]


def _pieces(numbers):
    if numbers.nbytes <= 4 * PIECE:
        return [numbers]
    return numbers.detach().view(-1).split(PIECE // carrier(numbers.dtype).itemsize)


def _reduced(source, target, op, size, make):
    """A reduction step on `source` in the dtype that carries its sum, written to `target`."""
    carried = source
    if carrier(source.dtype) != source.dtype:
        carried = source.to(carrier(source.dtype))
    elif target is None:
        carried = source
    step = make(carried)
    if target is not None and (op == "AVG" or carried is not target):

        def finish():
            if op == "AVG":
                average(carried, size)
            if carried is not target:
                target.detach().copy_(carried)

        step.finish = finish
    return step


def _both(first, second):
    if first is None or second is None:
        return first or second

    def both():
        first()
        second()

    return both


def _joined(tensors):
    return torch.cat([dense(t)[0].detach().view(-1) for t in tensors])


def _spread(flat, targets):
    offset = 0
    for target in targets:
        block = flat[offset : offset + target.numel()]
        target.detach().copy_(block.view(target.shape))
        offset += target.numel()
