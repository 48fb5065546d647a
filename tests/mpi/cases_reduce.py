"""broadcast, reduce, reduce_scatter and reduce_scatter_tensor."""

import torch
import torch.distributed as dist

from labkit import LabError

from .table import case
from .world import COMPLEX, FLOATS, INTS, close, equal, fold, usable

Op = dist.ReduceOp


@case(gloo=False)
def broadcast_from_every_root_in_every_dtype(w):
    for root in range(w.size):
        for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
            t = w.mine(33, dtype=dtype, salt=root)
            dist.broadcast(t, root)
            equal(t, w.data(root, 33, dtype=dtype, salt=root))


@case()
def broadcast_of_large_empty_and_scalar(w):
    for shape in ((0,), (), (700, 900)):
        t = w.mine(*shape)
        dist.broadcast(t, w.size - 1)
        equal(t, w.data(w.size - 1, *shape))


@case(gloo=False)
def broadcast_into_a_view_leaves_the_rest_alone(w):
    base = torch.full((6, 6), float(w.rank))
    dist.broadcast(base[:, 1], 1)
    equal(base[:, 1], torch.ones(6))
    equal(base[:, 2:], torch.full((6, 4), float(w.rank)))


@case()
def asynchronous_broadcast(w):
    t = w.mine(10)
    dist.broadcast(t, 0, async_op=True).wait()
    equal(t, w.data(0, 10))


@case()
def reduce_gives_the_result_to_the_root(w):
    for root in range(w.size):
        values = w.all(31, salt=root)
        t = values[w.rank].clone()
        dist.reduce(t, root)
        if w.rank == root:
            equal(t, fold(torch.add, values))


@case(gloo=False)
def reduce_in_every_operation(w):
    for op, reference in ((Op.MIN, torch.minimum), (Op.MAX, torch.maximum), (Op.BXOR, torch.bitwise_xor)):
        values = w.all(8, dtype=torch.int32, salt=str(op))
        t = values[w.rank].clone()
        dist.reduce(t, 1, op)
        if w.rank == 1:
            equal(t, fold(reference, values))
    values = w.all(8)
    t = values[w.rank].clone()
    dist.reduce(t, 0, Op.AVG)
    if w.rank == 0:
        close(t, fold(torch.add, values) / w.size)


@case(gloo=False)
def reduce_in_low_precision_into_a_view(w):
    for dtype in (torch.bfloat16, torch.float16):
        values = w.all(9, 4, dtype=dtype)
        t = values[w.rank].clone()
        dist.reduce(t.t(), 0)
        if w.rank == 0:
            equal(t, fold(torch.add, values))


@case()
def reduce_scatter_tensor_gives_each_rank_its_part(w):
    for op, reference in ((Op.SUM, torch.add), (Op.MAX, torch.maximum)):
        values = w.all(w.size * 6, 5, salt=str(op))
        out = torch.empty(6, 5)
        dist.reduce_scatter_tensor(out, values[w.rank].clone(), op)
        equal(out, fold(reference, values)[w.rank * 6 : (w.rank + 1) * 6])


@case(gloo=False)
def reduce_scatter_tensor_in_every_float_and_average(w):
    for dtype in FLOATS:
        values = w.all(w.size * 4, dtype=dtype)
        out = torch.empty(4, dtype=dtype)
        dist.reduce_scatter_tensor(out, values[w.rank].clone())
        whole = fold(torch.add, values)
        equal(out, whole.chunk(w.size)[w.rank])
        dist.reduce_scatter_tensor(out, values[w.rank].clone(), Op.AVG)
        close(out, (whole / w.size).chunk(w.size)[w.rank])


@case(gloo=False)
def reduce_scatter_tensor_into_a_part_of_its_own_input(w):
    values = w.all(w.size * 8)
    buffer = values[w.rank].clone()
    dist.reduce_scatter_tensor(buffer.chunk(w.size)[w.rank], buffer)
    equal(buffer.chunk(w.size)[w.rank], fold(torch.add, values).chunk(w.size)[w.rank])


@case()
def reduce_scatter_takes_a_list(w):
    parts = [w.all(5, salt=r) for r in range(w.size)]
    out = torch.empty(5)
    dist.reduce_scatter(out, [parts[r][w.rank].clone() for r in range(w.size)])
    equal(out, fold(torch.add, parts[w.rank]))


@case(gloo=False)
def reduce_scatter_of_uneven_parts(w):
    parts = [w.all(r + 1, salt=r) for r in range(w.size)]
    out = torch.empty(w.rank + 1)
    dist.reduce_scatter(out, [parts[r][w.rank].clone() for r in range(w.size)])
    equal(out, fold(torch.add, parts[w.rank]))


@case()
def reduce_scatter_equals_all_reduce_then_a_cut(w):
    t = w.mine(w.size * 1000)
    out = torch.empty(1000)
    dist.reduce_scatter_tensor(out, t.clone())
    dist.all_reduce(t)
    equal(out, t.chunk(w.size)[w.rank])


@case()
def asynchronous_reduce_scatter(w):
    values = w.all(w.size * 3)
    out = torch.empty(3)
    dist.reduce_scatter_tensor(out, values[w.rank].clone(), async_op=True).wait()
    equal(out, fold(torch.add, values).chunk(w.size)[w.rank])


@case(gloo=False)
def a_root_that_is_no_rank_is_refused(w):
    t = torch.ones(2)
    wrong = {
        "src": (lambda r: dist.broadcast(t, src=r), lambda r: dist.scatter(t, src=r)),
        "dst": (lambda r: dist.reduce(t, dst=r), lambda r: dist.gather(t, dst=r)),
    }
    for name, calls in wrong.items():
        for call in calls:
            for root in (w.size, -1):
                try:
                    call(root)
                except LabError as error:
                    assert f"{name}={root}" in error.asked and f"0 to {w.size - 1}" in error.found, error
                else:
                    raise AssertionError(f"there is no rank {root}")
    usable(w)
