"""all_reduce of tensors so large that it goes through memory which the ranks share."""

import torch
import torch.distributed as dist

from .cases_interrupt import HELD_UP, interrupted
from .table import case
from .world import FLOATS, World, equal, fold

Op = dist.ReduceOp
PIECE = 1 << 20  # bytes, as labkit.mpi.collectives.shared_memory cuts them
SIZES = (PIECE // 8, PIECE // 4 + 1, PIECE - 3, 2 * PIECE + 5)  # elements: one piece, two, some, many


def agreed(w: World, dtype: torch.dtype, op, reference, n: int) -> None:
    values = w.all(n, dtype=dtype, salt=(n, str(dtype), str(op)))
    t = values[w.rank].clone()
    dist.all_reduce(t, op)
    equal(t, fold(reference, values))


@case()
def sums_of_every_size(w):
    for n in SIZES:
        agreed(w, torch.float32, Op.SUM, torch.add, n)


@case(gloo=False)
def other_operations_and_dtypes(w):
    for dtype in FLOATS:
        agreed(w, dtype, Op.SUM, torch.add, PIECE)
    for op, reference in ((Op.MIN, torch.minimum), (Op.MAX, torch.maximum)):
        agreed(w, torch.int64, op, reference, PIECE // 3)
    agreed(w, torch.uint8, Op.BXOR, torch.bitwise_xor, PIECE + 7)


@case(gloo=False)
def averages_are_divided_once(w):
    values = w.all(PIECE)
    t = values[w.rank].clone()
    dist.all_reduce(t, Op.AVG)
    equal(t, fold(torch.add, values) / w.size)


@case(gloo=False)
def tensors_that_are_not_contiguous(w):
    values = w.all(1500, 400)
    t = values[w.rank].clone().t()
    dist.all_reduce(t)
    equal(t, fold(torch.add, values).t())


@case()
def many_under_way_waited_for_in_reverse(w):
    kinds = [(n, salt) for salt, n in enumerate((3 * PIECE, 5, PIECE // 2, PIECE, 2 * PIECE))]
    tensors = [w.mine(n, salt=salt) for n, salt in kinds]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for work in reversed(works):
        work.wait()
    for (n, salt), t in zip(kinds, tensors, strict=True):
        equal(t, fold(torch.add, w.all(n, salt=salt)))


@case()
def another_group_in_between(w):
    other = dist.new_group(list(range(w.size)))
    t, u = w.mine(2 * PIECE, salt="t"), w.mine(PIECE, salt="u")
    work = dist.all_reduce(t, async_op=True)
    dist.all_reduce(u, group=other)
    work.wait()
    equal(t, fold(torch.add, w.all(2 * PIECE, salt="t")))
    equal(u, fold(torch.add, w.all(PIECE, salt="u")))
    dist.destroy_process_group(other)


@case(checked=False)
def one_rank_waits_at_once_and_another_later(w):
    t = w.mine(PIECE)
    work = dist.all_reduce(t, async_op=w.rank % 2 == 0)
    if work is not None:
        work.wait()
    equal(t, fold(torch.add, w.all(PIECE)))


@case(gloo=False)
def an_interrupt_leaves_no_piece_behind(w):
    alone, together = torch.empty(1), w.mine(PIECE)

    def block():
        if w.rank == w.size - 1:
            dist.recv(alone, 0, tag=98)
        else:
            dist.all_reduce(together)

    for _ in range(5):
        agreed(w, torch.float32, Op.SUM, torch.add, PIECE)  # the memory is there
        took = interrupted(w, block)
        assert took < HELD_UP, took
    agreed(w, torch.float32, Op.SUM, torch.add, PIECE)
