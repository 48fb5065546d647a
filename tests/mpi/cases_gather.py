"""all_gather, all_gather_into_tensor and gather."""

import torch
import torch.distributed as dist

from .table import case
from .world import COMPLEX, FLOATS, INTS, equal


@case()
def all_gather_collects_in_the_order_of_ranks(w):
    out = [torch.empty(4, 3) for _ in range(w.size)]
    dist.all_gather(out, w.mine(4, 3))
    for found, expected in zip(out, w.all(4, 3), strict=True):
        equal(found, expected)


@case(gloo=False)
def all_gather_in_every_dtype(w):
    for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
        out = [torch.zeros(11, dtype=dtype) for _ in range(w.size)]
        dist.all_gather(out, w.mine(11, dtype=dtype))
        for found, expected in zip(out, w.all(11, dtype=dtype), strict=True):
            equal(found, expected)


@case(gloo=False)
def all_gather_into_views_from_a_view(w):
    base = torch.zeros(5, w.size, 2)
    dist.all_gather([base[:, r] for r in range(w.size)], w.mine(2, 5).t())
    for r, expected in enumerate(w.all(2, 5)):
        equal(base[:, r], expected.t())


@case(gloo=False)
def all_gather_of_uneven_parts(w):
    out = [torch.empty(r + 1) for r in range(w.size)]
    dist.all_gather(out, w.mine(w.rank + 1))
    for r in range(w.size):
        equal(out[r], w.data(r, r + 1))


@case()
def all_gather_of_nothing(w):
    out = [torch.empty(0, 2) for _ in range(w.size)]
    dist.all_gather(out, torch.empty(0, 2))
    dist.barrier()


@case()
def all_gather_into_tensor_concatenates(w):
    flat = torch.empty(w.size * 3, 4)
    dist.all_gather_into_tensor(flat, w.mine(3, 4))
    equal(flat, torch.cat(w.all(3, 4)))


@case(gloo=False)
def all_gather_into_tensor_stacks(w):
    stacked = torch.empty(w.size, 3, 4)
    dist.all_gather_into_tensor(stacked, w.mine(3, 4))
    equal(stacked, torch.stack(w.all(3, 4)))


@case(gloo=False)
def all_gather_into_tensor_may_alias_its_input(w):
    whole = torch.zeros(w.size * 6)
    part = whole.chunk(w.size)[w.rank]
    part.copy_(w.mine(6))
    dist.all_gather_into_tensor(whole, part)
    equal(whole, torch.cat(w.all(6)))


@case(gloo=False)
def large_all_gather(w):
    n = 500_000 + w.number(0, 7)
    out = torch.empty(w.size, n)
    dist.all_gather_into_tensor(out, w.mine(n), async_op=True).wait()
    equal(out, torch.stack(w.all(n)))


@case()
def gather_fills_the_root(w):
    for root in range(w.size):
        out = [torch.empty(5) for _ in range(w.size)] if w.rank == root else None
        dist.gather(w.mine(5, salt=root), out, root)
        if out:
            equal(torch.stack(out), torch.stack(w.all(5, salt=root)))


@case(gloo=False)
def gather_in_every_dtype_from_views(w):
    for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
        out = [torch.zeros(3, 2, dtype=dtype) for _ in range(w.size)] if w.rank == 0 else None
        dist.gather(w.mine(2, 3, dtype=dtype).t(), out, 0)
        if out:
            equal(torch.stack(out), torch.stack([t.t() for t in w.all(2, 3, dtype=dtype)]))


@case()
def asynchronous_gather(w):
    out = [torch.empty(5) for _ in range(w.size)] if w.rank == 1 else None
    dist.gather(w.mine(5), out, 1, async_op=True).wait()
    if out:
        equal(torch.stack(out), torch.stack(w.all(5)))


@case()
def coalesced_all_gather(w):
    lists = [[torch.empty(2), torch.empty(3)] for _ in range(w.size)]
    dist.all_gather_coalesced(lists, [w.mine(2, salt=2), w.mine(3, salt=3)])
    for r in range(w.size):
        equal(lists[r][0], w.data(r, 2, salt=2))
        equal(lists[r][1], w.data(r, 3, salt=3))
