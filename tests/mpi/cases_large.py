"""Tensors of every verb so large that they go through memory which the ranks share, or as messages."""

from itertools import groupby
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from labkit import LabError
from labkit.mpi import recover
from labkit.mpi.collectives import mapped
from labkit.mpi.collectives.as_messages import route
from labkit.mpi.collectives.chain import neighbours
from labkit.mpi.collectives.shared_memory import AHEAD, PLACE, SharedMemory

from .cases_interrupt import HELD_UP, interrupted
from .table import case
from .world import COMPLEX, FLOATS, INTS, World, equal, fold

Op = dist.ReduceOp
ROUND = PLACE // 4  # elements of float32
SIZES = (ROUND // 2, ROUND, ROUND + 1, (AHEAD + 1) * ROUND + 77)


def broadcast(w: World, n: int, root: int = 0, dtype: torch.dtype = torch.float32) -> None:
    t = w.mine(n, dtype=dtype, salt=n)
    dist.broadcast(t, root)
    equal(t, w.data(root, n, dtype=dtype, salt=n))


def reduce(w: World, n: int, root: int = 0, dtype=torch.float32, op=Op.SUM, reference=torch.add) -> None:
    values = w.all(n, dtype=dtype, salt=(n, str(op)))
    t = values[w.rank].clone()
    dist.reduce(t, root, op)
    equal(t, fold(reference, values) if w.rank == root else values[w.rank])


def all_gather(w: World, n: int, dtype: torch.dtype = torch.float32) -> None:
    values = w.all(n, dtype=dtype, salt=n)
    out = torch.zeros(w.size * n, dtype=dtype)
    dist.all_gather_into_tensor(out, values[w.rank])
    equal(out, torch.cat(values))


def gather(w: World, n: int, root: int = 0, dtype: torch.dtype = torch.float32) -> None:
    values = w.all(n, dtype=dtype, salt=n)
    out = [torch.zeros(n, dtype=dtype) for _ in values]
    dist.gather(values[w.rank], out if w.rank == root else None, root)
    for found, value in zip(out, values, strict=True):
        equal(found, value if w.rank == root else torch.zeros(n, dtype=dtype))


def scatter(w: World, n: int, root: int = 0, dtype: torch.dtype = torch.float32) -> None:
    values = w.all(n, dtype=dtype, salt=n)
    out = torch.zeros(n, dtype=dtype)
    dist.scatter(out, values if w.rank == root else None, root)
    equal(out, values[w.rank])


def reduce_scatter(w: World, n: int, dtype=torch.float32, op=Op.SUM, reference=torch.add) -> None:
    values = w.all(w.size, n, dtype=dtype, salt=(n, str(op)))
    out = torch.zeros(n, dtype=dtype)
    dist.reduce_scatter_tensor(out, values[w.rank].view(-1), op)
    equal(out, fold(reference, values)[w.rank])


def all_to_all(w: World, n: int, dtype: torch.dtype = torch.float32) -> None:
    values = [w.all(n, dtype=dtype, salt=giver) for giver in range(w.size)]
    out = torch.zeros(w.size * n, dtype=dtype)
    dist.all_to_all_single(out, torch.cat(values[w.rank]))
    equal(out, torch.cat([given[w.rank] for given in values]))


VERBS = broadcast, reduce, all_gather, gather, scatter, reduce_scatter, all_to_all


@case()
def every_verb_in_every_size(w):
    for verb in VERBS:
        for n in SIZES:
            verb(w, n)


@case()
def from_and_to_every_root(w):
    for verb in broadcast, reduce, gather, scatter:
        for root in range(w.size):
            verb(w, ROUND, root)


@case(gloo=False)
def every_dtype_is_moved(w):
    for verb in broadcast, all_gather, gather, scatter, all_to_all:
        for dtype in (*FLOATS, *INTS, torch.bool, *COMPLEX):
            verb(w, ROUND * 2 + 3, dtype=dtype)


@case(gloo=False)
def other_operations_and_dtypes(w):
    for verb in reduce, reduce_scatter:
        for dtype in FLOATS:
            verb(w, ROUND, dtype=dtype)
        for op, reference in ((Op.MIN, torch.minimum), (Op.MAX, torch.maximum)):
            verb(w, ROUND, dtype=torch.int64, op=op, reference=reference)
        verb(w, ROUND * 2, dtype=torch.uint8, op=Op.BXOR, reference=torch.bitwise_xor)


@case(gloo=False)
def averages_are_divided_once(w):
    values = w.all(w.size, ROUND)
    out, t = torch.empty(ROUND), values[w.rank].clone()
    dist.reduce_scatter_tensor(out, t.view(-1), Op.AVG)
    equal(out, fold(torch.add, values)[w.rank] / w.size)
    dist.reduce(t, 0, Op.AVG)
    equal(t, fold(torch.add, values) / w.size if w.rank == 0 else values[w.rank])


@case(gloo=False)
def what_a_dtype_does_not_allow_is_refused(w):
    t = torch.zeros(ROUND)
    with pytest.raises(LabError, match="BXOR"):
        dist.reduce(t, 0, Op.BXOR)
    with pytest.raises(LabError, match="BXOR"):
        dist.reduce_scatter_tensor(torch.zeros(ROUND // w.size), t[: ROUND // w.size * w.size], Op.BXOR)


@case(gloo=False)
def tensors_that_are_not_contiguous(w):
    values = w.all(900, 400)
    for root in range(w.size):
        t = values[w.rank].clone().t()
        dist.broadcast(t, root)
        equal(t, values[root].t())
        t = values[w.rank].clone().t()
        dist.reduce(t, root)
        equal(t, fold(torch.add, values).t() if w.rank == root else values[w.rank].t())
        base = torch.zeros(w.size, 400, 1800)
        there = [view[:, ::2] for view in base]
        dist.gather(values[w.rank].t(), there if w.rank == root else None, root)
        for view, value in zip(there, values, strict=True):
            equal(view, value.t() if w.rank == root else torch.zeros(400, 900))
        equal(base[..., 1::2], torch.zeros(w.size, 400, 900))
        base = torch.zeros(400, 1800)
        dist.scatter(base[:, ::2], [value.t() for value in values] if w.rank == root else None, root)
        equal(base[:, ::2], values[w.rank].t())
    base = torch.zeros(w.size, 400, 1800)
    dist.all_gather([view[:, ::2] for view in base], values[w.rank].t())
    equal(base[..., ::2], torch.stack([value.t() for value in values]))
    equal(base[..., 1::2], torch.zeros(w.size, 400, 900))


@case()
def other_dimensions_of_the_same_numbers(w):
    values = w.all(512, 512)
    out = torch.zeros(w.size, 512, 512)
    dist.all_gather_into_tensor(out, values[w.rank])
    equal(out, torch.stack(values))
    summed = torch.zeros(512, 512)
    dist.reduce_scatter_tensor(summed, out + w.rank)
    equal(summed, values[w.rank] * w.size + sum(range(w.size)))


@case(gloo=False)
def lists_of_several_lengths(w):
    lengths = [ROUND // 2 * (rank + 1) + rank for rank in range(w.size)]
    values = [w.data(rank, n) for rank, n in enumerate(lengths)]
    out = [torch.zeros(n) for n in lengths]
    dist.all_gather(out, values[w.rank])
    for found, value in zip(out, values, strict=True):
        equal(found, value)
    of_ranks = [[w.data(giver, n, salt=taker) for taker, n in enumerate(lengths)] for giver in range(w.size)]
    summed = torch.zeros(lengths[w.rank])
    dist.reduce_scatter(summed, of_ranks[w.rank])
    equal(summed, fold(torch.add, [given[w.rank] for given in of_ranks]))


@case()
def lists_of_one_length(w):
    of_ranks = [w.all(ROUND, salt=giver) for giver in range(w.size)]
    summed = torch.zeros(ROUND)
    dist.reduce_scatter(summed, of_ranks[w.rank])
    equal(summed, fold(torch.add, [given[w.rank] for given in of_ranks]))


@case(gloo=False)
def a_tensor_that_is_part_of_what_it_goes_to(w):
    values = w.all(ROUND)
    for place in w.rank, w.next:  # FSDP2 has its own there
        whole = torch.zeros(w.size, ROUND)
        whole[place] = values[w.rank]
        dist.all_gather_into_tensor(whole, whole[place])
        equal(whole, torch.stack(values))
    given = w.all(w.size, ROUND, salt="wide")
    for place in w.rank, w.next:  # and FSDP writes into what it gave
        mine, expected = given[w.rank].clone(), given[w.rank].clone()
        expected[place] = fold(torch.add, given)[w.rank]
        dist.reduce_scatter_tensor(mine[place], mine)
        equal(mine, expected)


@case(gloo=False)
def large_and_small_to_some_of_them(w):
    def length(giver: int, taker: int) -> int:
        return (0, 5, ROUND // 4, ROUND + 1)[(giver + 2 * taker) % 4]

    def given(giver: int, taker: int) -> torch.Tensor:
        return w.data(giver, length(giver, taker), 2, salt=taker)

    for work in (False, True):
        out = [torch.zeros(length(giver, w.rank), 2) for giver in range(w.size)]
        found = dist.all_to_all(out, [given(w.rank, taker) for taker in range(w.size)], async_op=work)
        if work:
            found.wait()
        for giver, tensor in enumerate(out):
            equal(tensor, given(giver, w.rank))
    take, give = ([length(r, w.rank) for r in range(w.size)], [length(w.rank, r) for r in range(w.size)])
    whole = torch.zeros(sum(take), 2)
    dist.all_to_all_single(whole, torch.cat([given(w.rank, taker) for taker in range(w.size)]), take, give)
    equal(whole, torch.cat([given(giver, w.rank) for giver in range(w.size)]))


@case()
def all_verbs_under_way_waited_for_in_reverse(w):
    n = ROUND
    values, wide = w.all(n), w.all(w.size, n, salt="wide")
    last = w.size - 1
    sent, reduced, summed = (values[w.rank].clone() for _ in range(3))
    gathered, here = torch.zeros(w.size, n), torch.zeros(n)
    there = [torch.zeros(n) for _ in values] if w.rank == last else None
    part = torch.zeros(n)
    works = [
        dist.all_gather_into_tensor(gathered, values[w.rank], async_op=True),
        dist.broadcast(sent, last, async_op=True),
        dist.all_reduce(summed, async_op=True),
        dist.reduce(reduced, 0, async_op=True),
        dist.gather(values[w.rank], there, last, async_op=True),
        dist.all_reduce(torch.ones(3), async_op=True),
        dist.scatter(here, values if w.rank == 0 else None, 0, async_op=True),
        dist.reduce_scatter_tensor(part, wide[w.rank], async_op=True),
    ]
    for work in reversed(works):
        work.wait()
    equal(gathered, torch.stack(values))
    equal(sent, values[last])
    equal(summed, fold(torch.add, values))
    equal(reduced, fold(torch.add, values) if w.rank == 0 else values[w.rank])
    for found, value in zip(there or values, values, strict=True):
        equal(found, value)
    equal(here, values[w.rank])
    equal(part, fold(torch.add, wide)[w.rank])


@case(sizes=(3, 4))
def two_groups_in_turn(w):
    other = dist.new_group(list(range(1, w.size)))
    for n in SIZES:
        all_gather(w, n)
        if w.rank:
            t = w.mine(n, salt="other")
            dist.broadcast(t, 1, group=other)
            equal(t, w.data(1, n, salt="other"))
        broadcast(w, n)
    if w.rank:
        dist.destroy_process_group(other)


@case(gloo=False, checked=False)
def other_lengths_than_the_others_are_refused(w):
    out = [torch.zeros(ROUND + rank) for rank in range(w.size)] if w.rank == 0 else None
    if w.rank == 0:
        with pytest.raises(LabError, match=f"numbers for rank 1 of {ROUND + 1}"):
            dist.gather(torch.zeros(ROUND), out, 0)
    recover()  # the others never called it


@case(gloo=False)
def an_interrupt_leaves_no_piece_behind(w):
    alone = torch.empty(1)
    for round_, verb in enumerate(VERBS):
        verb(w, ROUND)  # the memory is there

        def block(verb=verb):
            if w.rank == w.size - 1:
                dist.recv(alone, 0, tag=98)
            else:
                verb(w, ROUND)
                dist.barrier()  # who only gives may be ahead of the others

        took = interrupted(w, block, meet=f"{round_}")
        assert took < HELD_UP, took
        verb(w, ROUND)


def all_of_it(w: World) -> None:
    every_verb_in_every_size(w)
    from_and_to_every_root(w)
    tensors_that_are_not_contiguous(w)
    all_verbs_under_way_waited_for_in_reverse(w)
    an_interrupt_leaves_no_piece_behind(w)


@case(gloo=False, sizes=(2, 3))
def all_of_it_where_a_rank_cannot_map_the_memory(w):
    group = dist.group.WORLD
    common, group.memory = group.memory, SharedMemory(w.rank, ["here"] * w.size)
    last = w.rank == w.size - 1
    try:
        with mock.patch.object(mapped, "attach", (lambda *_: None) if last else mapped.attach):
            broadcast(w, ROUND)
        all_of_it(w)
    finally:
        group.memory = common


@case(gloo=False, sizes=(2, 3, 4))
def all_of_it_where_a_rank_is_on_another_host(w):
    group = dist.group.WORLD
    common, group.memory = (
        group.memory,
        SharedMemory(w.rank, ["here", "there"] * (w.size // 2) + ["here"] * (w.size % 2)),
    )
    try:
        all_of_it(w)
        other_operations_and_dtypes(w)
        averages_are_divided_once(w)
        what_a_dtype_does_not_allow_is_refused(w)
    finally:
        group.memory = common


@case(gloo=False, checked=False)
def a_chain_has_all_ranks_and_is_on_each_host_once(w):
    for hosts in "a" * w.size, "ab" * w.size, "abc" * w.size, "b" + "a" * w.size:
        for root in range(len(hosts)):
            after = {rank: neighbours(rank, root, hosts)[1] for rank in range(len(hosts))}
            chain = [rank for rank in after if neighbours(rank, root, hosts)[0] is None]
            while after[chain[-1]] is not None:
                chain.append(after[chain[-1]])
            assert chain[-1] == root and sorted(chain) == list(after)
            assert len(list(groupby(chain, key=lambda rank: hosts[rank]))) == len(set(hosts))


@case(gloo=False, checked=False)
def all_get_what_each_one_has_and_each_host_gets_it_once(w):
    for hosts in "a" * w.size, "ab" * w.size, "aab" * w.size, "abc" * w.size, "b" + "a" * w.size:
        everyone = range(len(hosts))
        routes = [route(rank, hosts) for rank in everyone]
        for source in everyone:
            first = {rank for rank in everyone if rank in routes[source][1]}
            assert first == {rank for rank in everyone if routes[rank][0][source] == source}
            assert sorted(hosts[rank] for rank in first - routes[source][2]) == sorted(
                set(hosts) - {hosts[source]}
            )
            for rank in everyone:
                before = routes[rank][0][source]
                assert before == source or (before in first and hosts[before] == hosts[rank])
