"""all_to_all with a list, all_to_all_single with splits."""

import torch
import torch.distributed as dist

from labkit import LabError

from .table import case
from .world import COMPLEX, FLOATS, INTS, World, equal, usable


def count(w: World, source: int, target: int) -> int:
    """How much `source` sends to `target`; some of it is nothing."""
    return w.number(0, 5, source, target)


@case(gloo=False)
def all_to_all_is_a_transpose(w):
    out = [torch.empty(3) for _ in range(w.size)]
    dist.all_to_all(out, [w.mine(3, salt=r) for r in range(w.size)])
    for r in range(w.size):
        equal(out[r], w.data(r, 3, salt=w.rank))


@case(gloo=False)
def all_to_all_of_uneven_tensors(w):
    out = [torch.empty(count(w, r, w.rank), 2) for r in range(w.size)]
    dist.all_to_all(out, [w.mine(count(w, w.rank, r), 2, salt=r) for r in range(w.size)])
    for r in range(w.size):
        equal(out[r], w.data(r, count(w, r, w.rank), 2, salt=w.rank))


@case(gloo=False)
def all_to_all_between_views(w):
    base = torch.zeros(4, 2 * w.size)
    dist.all_to_all([base[:, 2 * r] for r in range(w.size)], [w.mine(8, salt=r)[::2] for r in range(w.size)])
    for r in range(w.size):
        equal(base[:, 2 * r], w.data(r, 8, salt=w.rank)[::2])
        equal(base[:, 2 * r + 1], torch.zeros(4))


@case(gloo=False)
def all_to_all_single_in_every_dtype(w):
    for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
        out = torch.zeros(w.size * 2, dtype=dtype)
        dist.all_to_all_single(out, w.mine(w.size * 2, dtype=dtype))
        parts = [t.chunk(w.size)[w.rank] for t in w.all(w.size * 2, dtype=dtype)]
        equal(out, torch.cat(parts))


@case()
def all_to_all_single_even(w):
    out = torch.empty(w.size * 4, 3)
    dist.all_to_all_single(out, w.mine(w.size * 4, 3))
    equal(out, torch.cat([t.chunk(w.size)[w.rank] for t in w.all(w.size * 4, 3)]))


@case(gloo=False)
def all_to_all_single_where_some_say_that_it_is_even(w):
    for n in (1, 100, 10_000):
        splits = [n] * w.size if w.rank == 0 else None
        out = torch.empty(w.size * n)
        dist.all_to_all_single(out, w.mine(w.size * n), splits, splits)
        equal(out, torch.cat([t.chunk(w.size)[w.rank] for t in w.all(w.size * n)]))


@case()
def all_to_all_single_with_uneven_splits(w):
    give = [count(w, w.rank, r) for r in range(w.size)]
    take = [count(w, r, w.rank) for r in range(w.size)]
    out = torch.empty(sum(take), 3)
    dist.all_to_all_single(out, w.mine(sum(give), 3), take, give)
    parts = []
    for r in range(w.size):
        counts = [count(w, r, to) for to in range(w.size)]
        parts.append(w.data(r, sum(counts), 3).split(counts)[w.rank])
    equal(out, torch.cat(parts))


@case()
def all_to_all_single_of_large_tensors_asynchronously(w):
    n = 200_000
    out = torch.empty(w.size, n)
    dist.all_to_all_single(out, w.mine(w.size, n), async_op=True).wait()
    equal(out, torch.stack([t[w.rank] for t in w.all(w.size, n)]))


@case(gloo=False)
def twice_is_the_identity(w):
    mine = w.mine(w.size, 5)
    there, back = torch.empty_like(mine), torch.empty_like(mine)
    dist.all_to_all_single(there, mine)
    dist.all_to_all_single(back, there)
    equal(back, mine)


@case(gloo=False)
def splits_that_leave_rows_over_are_refused(w):
    t, sizes = torch.ones(2 * w.size), [2] * w.size
    wrong = (
        lambda: dist.all_to_all_single(t, t.clone(), sizes, [1] * w.size),
        lambda: dist.all_to_all_single(t, t.clone(), [3] * w.size, sizes),
        lambda: dist.all_to_all_single(t, t.clone(), sizes, [2 * w.size]),
        lambda: dist.all_to_all_single(torch.ones(2 * w.size + 1), torch.ones(2 * w.size + 1)),
    )
    for call in wrong:
        try:
            call()
        except LabError as error:
            assert "rows" in error.asked, error
        else:
            raise AssertionError("some rows go nowhere, or come from nowhere")
    usable(w)
