"""all_reduce over every operation, dtype, layout and size, against the same reduction done alone."""

import pytest
import torch
import torch.distributed as dist

from labkit import LabError

from .table import case
from .world import COMPLEX, FLOATS, INTS, World, close, equal, fold

Op = dist.ReduceOp
ARITHMETIC = {
    Op.SUM: torch.add,
    Op.PRODUCT: torch.mul,
    Op.MIN: torch.minimum,
    Op.MAX: torch.maximum,
}
BITWISE = {Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}


def powers(w: World, rank: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    """Values whose product over four ranks is exact in every dtype."""
    signed = w.data(rank, n, dtype=dtype, salt="sign") > (0 if dtype != torch.uint8 else 8)
    one, two = torch.ones(n, dtype=dtype), torch.full((n,), 2, dtype=dtype)
    return torch.where(signed, two, one)


def reduced(w: World, dtype: torch.dtype, op, reference, n: int = 257) -> None:
    make = powers if op == Op.PRODUCT and dtype != torch.bool else World.data
    values = [make(w, r, n, dtype=dtype) for r in range(w.size)]
    t = values[w.rank].clone()
    dist.all_reduce(t, op)
    equal(t, fold(reference, values))


@case()
def sums_are_exact_in_every_float(w):
    for dtype in FLOATS:
        reduced(w, dtype, Op.SUM, torch.add)


@case(gloo=False)
def product_min_and_max_in_every_float(w):
    for dtype in FLOATS:
        for op in (Op.PRODUCT, Op.MIN, Op.MAX):
            reduced(w, dtype, op, ARITHMETIC[op])


@case(gloo=False)
def every_operation_in_every_integer(w):
    for dtype in INTS:
        for op, reference in (ARITHMETIC | BITWISE).items():
            reduced(w, dtype, op, reference)


@case(gloo=False)
def sums_of_integers_wrap_as_torch_wraps(w):
    values = [torch.full((9,), 100 + r, dtype=torch.int8) for r in range(w.size)]
    t = values[w.rank].clone()
    dist.all_reduce(t)
    equal(t, fold(torch.add, values))


@case(gloo=False)
def booleans_stay_booleans(w):
    for op, reference in (
        (Op.SUM, torch.logical_or),
        (Op.MAX, torch.logical_or),
        (Op.BOR, torch.logical_or),
        (Op.PRODUCT, torch.logical_and),
        (Op.MIN, torch.logical_and),
        (Op.BAND, torch.logical_and),
        (Op.BXOR, torch.logical_xor),
    ):
        values = w.all(65, dtype=torch.bool, salt=str(op))
        t = values[w.rank].clone()
        dist.all_reduce(t, op)
        equal(t.view(torch.uint8), fold(reference, values).view(torch.uint8))


@case()
def sums_of_complex_numbers(w):
    for dtype in COMPLEX:
        reduced(w, dtype, Op.SUM, torch.add)


@case(gloo=False)
def averages(w):
    for dtype in (*FLOATS, *COMPLEX):
        values = w.all(100, dtype=dtype)
        t = values[w.rank].clone()
        dist.all_reduce(t, Op.AVG)
        close(t, fold(torch.add, values) / w.size)


@case()
def sums_of_ordinary_numbers_agree_to_rounding(w):
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        values = [torch.randn(1001, dtype=dtype, generator=w.generator(r)) for r in range(w.size)]
        t = values[w.rank].clone()
        dist.all_reduce(t)
        close(t, fold(torch.add, values), rtol=tolerance, atol=10 * tolerance)


@case()
def every_rank_gets_the_same_bits(w):
    t = torch.randn(5003, generator=w.generator(w.rank))
    dist.all_reduce(t)
    first = t.clone()
    dist.broadcast(first, 0)
    equal(t, first)


@case(gloo=False)
def non_contiguous_tensors_change_in_place_and_only_there(w):
    base = w.mine(8, 10)
    kept = base.clone()
    view = base.t()[::2]
    dist.all_reduce(view)
    equal(base.t()[::2], fold(torch.add, [b.t()[::2] for b in w.all(8, 10)]))
    equal(base.t()[1::2], kept.t()[1::2])


@case()
def every_size_from_nothing_to_megabytes(w):
    for n in (0, 1, 2, 3, 1023, 4096, 65_537, 1_048_576 + w.number(0, 9), 3_000_001):
        values = w.all(n, salt=n)
        t = values[w.rank].clone()
        dist.all_reduce(t)
        equal(t, fold(torch.add, values))


@case(gloo=False)
def large_tensors_of_low_precision_and_odd_layout(w):
    for dtype in (torch.bfloat16, torch.float16):
        values = w.all(1500, 1001, dtype=dtype)
        t = values[w.rank].clone().t()
        dist.all_reduce(t)
        equal(t, fold(torch.add, values).t())


@case()
def scalars_keep_their_shape(w):
    t = torch.tensor(float(w.rank))
    dist.all_reduce(t, Op.MAX)
    assert t.shape == () and t.item() == w.size - 1


@case()
def asynchronous_calls_end_in_the_order_of_their_calls_or_not(w):
    inputs = [w.mine(n, salt=i) for i, n in enumerate((4, 400_000, 40, 4_000))]
    works = [dist.all_reduce(t, async_op=True) for t in inputs]
    for work in reversed(works):
        work.wait()
    for i, t in enumerate(inputs):
        equal(t, fold(torch.add, w.all(t.numel(), salt=i)))


@case(gloo=False)
def a_synchronous_large_call_keeps_its_place_between_asynchronous_ones(w):
    first, large, last = w.mine(300_000, salt=0), w.mine(4_000_000, salt=1), w.mine(7, salt=2)
    one = dist.all_reduce(first, async_op=True)
    dist.all_reduce(large)
    two = dist.all_reduce(last, async_op=True)
    two.wait()
    one.wait()
    for i, t in enumerate((first, large, last)):
        equal(t, fold(torch.add, w.all(t.numel(), salt=i)))


@case()
def a_future_carries_the_result(w):
    t = w.mine(12)
    work = dist.all_reduce(t, async_op=True)
    future = work.get_future().then(lambda f: f.value()[0] * 2)
    equal(future.wait(), fold(torch.add, w.all(12)) * 2)


@case()
def coalesced_calls(w):
    tensors = [w.mine(n, salt=n) for n in (3, 50, 1)]
    dist.all_reduce_coalesced(tensors)
    for t in tensors:
        equal(t, fold(torch.add, w.all(t.numel(), salt=t.numel())))


@case(gloo=False)
def float8_is_summed_or_refused_by_name(w):
    t = torch.ones(4).to(torch.float8_e4m3fn)
    try:
        dist.all_reduce(t)
    except (LabError, RuntimeError, TypeError, ValueError) as error:
        assert "float8" in str(error), error
    else:
        equal(t.float(), torch.full((4,), float(w.size)))


@case(gloo=False)
def sparse_tensors_are_averaged_and_only_added(w):
    mine = torch.sparse_coo_tensor([[w.rank, w.size]], torch.ones(2), (w.size + 1,))
    dist.all_reduce(mine, Op.AVG)
    equal(mine.to_dense(), torch.tensor([1 / w.size] * w.size + [1.0]))
    with pytest.raises(LabError, match="SUM and AVG are possible"):
        dist.all_reduce(mine, Op.MAX)
    with pytest.raises(LabError, match="all_reduce takes one"):
        dist.all_gather([mine.clone() for _ in range(w.size)], mine)
    dist.barrier()


@case(gloo=False)
def large_sparse_tensors_are_added(w):
    rows = torch.arange(w.rank, 100_000, w.rank + 1)
    mine = torch.sparse_coo_tensor(rows[None], torch.ones(len(rows), 2), (100_000, 2))
    whole = sum(
        torch.sparse_coo_tensor(r[None], torch.ones(len(r), 2), (100_000, 2)).to_dense()
        for r in (torch.arange(k, 100_000, k + 1) for k in range(w.size))
    )
    dist.all_reduce(mine)
    equal(mine.to_dense(), whole)


@case(gloo=False)
def bitwise_operations_on_floats_are_refused(w):
    try:
        dist.all_reduce(torch.ones(3), Op.BAND)
    except (LabError, RuntimeError, TypeError, ValueError) as error:
        assert "BAND" in str(error).upper() or "bitwise" in str(error).lower(), error
    else:
        raise AssertionError("BAND of floats has no meaning, yet no error was raised")
    dist.barrier()
