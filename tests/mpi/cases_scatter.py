"""scatter from every root."""

import torch
import torch.distributed as dist

from .table import case
from .world import COMPLEX, FLOATS, INTS, equal


@case()
def scatter_gives_each_rank_its_tensor(w):
    for root in range(w.size):
        parts = [w.data(root, 4, 2, salt=(root, r)) for r in range(w.size)]
        out = torch.empty(4, 2)
        dist.scatter(out, parts if w.rank == root else None, root)
        equal(out, parts[w.rank])


@case(gloo=False)
def scatter_in_every_dtype(w):
    for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
        parts = [w.data(0, 9, dtype=dtype, salt=r) for r in range(w.size)]
        out = torch.zeros(9, dtype=dtype)
        dist.scatter(out, parts if w.rank == 0 else None, 0)
        equal(out, parts[w.rank])


@case(gloo=False)
def scatter_between_views(w):
    parts = [w.data(0, 3, 5, salt=r).t() for r in range(w.size)]
    base = torch.zeros(5, 6)
    dist.scatter(base[:, ::2], parts if w.rank == 0 else None, 0)
    equal(base[:, ::2], parts[w.rank])
    equal(base[:, 1::2], torch.zeros(5, 3))


@case()
def asynchronous_scatter_of_large_tensors(w):
    n = 300_000
    parts = [w.data(1, n, salt=r) for r in range(w.size)]
    out = torch.empty(n)
    dist.scatter(out, parts if w.rank == 1 else None, 1, async_op=True).wait()
    equal(out, parts[w.rank])


@case()
def scatter_of_nothing(w):
    out = torch.empty(0)
    dist.scatter(out, [torch.empty(0)] * w.size if w.rank == 0 else None, 0)
    dist.barrier()


@case()
def gather_undoes_scatter(w):
    parts = [w.data(0, 6, salt=r) for r in range(w.size)]
    mine = torch.empty(6)
    dist.scatter(mine, parts if w.rank == 0 else None, 0)
    back = [torch.empty(6) for _ in range(w.size)] if w.rank == 0 else None
    dist.gather(mine, back, 0)
    if back:
        equal(torch.stack(back), torch.stack(parts))
