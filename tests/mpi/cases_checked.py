"""Checked mode: ranks that call different things all hear of it, with both lines, and go on."""

import os
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from .table import case
from .world import World, equal, usable

Op = dist.ReduceOp
SOON = 15.0  # seconds to an error on every rank, on a machine that has much else to do


def refused(w: World, odd: Callable, even: Callable, odd_rank: int | None = None, says: str = "") -> None:
    """One rank calls `odd`, the others `even`: an error on each names both lines, and the group works."""
    odd_rank = w.number(0, w.size, odd.__code__.co_firstlineno) if odd_rank is None else odd_rank
    dist.barrier()
    began = time.monotonic()
    try:
        (odd if w.rank == odd_rank else even)()
    except dist.DistBackendError as error:
        took, text = time.monotonic() - began, str(error)
    else:
        raise AssertionError("the ranks called different things, yet this rank saw no error")
    assert took < SOON and says in text, (took, text)
    for function in (odd, even):
        code = function.__code__
        assert f"{os.path.basename(code.co_filename)}" in text, text
        assert str(code.co_firstlineno) in text, (code.co_firstlineno, text)
    usable(w)


def checked(function: Callable) -> Callable:
    return case(gloo=False, checked=True)(function)


@checked
def another_verb(w):
    t, out = torch.ones(4), torch.empty(4 * w.size)
    refused(
        w,
        lambda: dist.all_reduce(t),
        lambda: dist.all_gather_into_tensor(out, t),
    )
    refused(
        w,
        lambda: dist.barrier(),
        lambda: dist.broadcast(t, 0),
    )


@checked
def another_layout(w):
    a, b = torch.ones(4), torch.ones(4).to_sparse()
    refused(w, lambda: dist.all_reduce(a), lambda: dist.all_reduce(b), says="sparse_coo, float32[4]")


@checked
def another_shape(w):
    a, b = torch.ones(4), torch.ones(5)
    refused(
        w,
        lambda: dist.all_reduce(a),
        lambda: dist.all_reduce(b),
    )
    equal(a, torch.ones(4))
    equal(b, torch.ones(5))


@checked
def the_same_number_of_elements_in_another_shape(w):
    a, b = torch.ones(2, 3), torch.ones(3, 2)
    refused(
        w,
        lambda: dist.all_reduce(a),
        lambda: dist.all_reduce(b),
    )


@checked
def another_dtype(w):
    a, b = torch.ones(4), torch.ones(4, dtype=torch.int32)
    refused(
        w,
        lambda: dist.all_reduce(a),
        lambda: dist.all_reduce(b),
    )
    refused(
        w,
        lambda: dist.broadcast(a, 0),
        lambda: dist.broadcast(b, 0),
    )


@checked
def another_operation(w):
    t = torch.ones(4)
    refused(
        w,
        lambda: dist.all_reduce(t, Op.MAX),
        lambda: dist.all_reduce(t, Op.SUM),
    )
    refused(
        w,
        lambda: dist.reduce(t, 0, Op.MIN),
        lambda: dist.reduce(t, 0, Op.PRODUCT),
    )


@checked
def another_root(w):
    t, out = torch.ones(4), [torch.empty(4) for _ in range(w.size)]
    refused(
        w,
        lambda: dist.broadcast(t, 0),
        lambda: dist.broadcast(t, 1),
    )
    refused(
        w,
        lambda: dist.reduce(t, 1),
        lambda: dist.reduce(t, 0),
    )
    refused(
        w,
        lambda: dist.gather(t, out if w.rank == 0 else None, 0),
        lambda: dist.gather(t, out if w.rank == 1 else None, 1),
    )
    refused(
        w,
        lambda: dist.scatter(t, out if w.rank == 0 else None, 0),
        lambda: dist.scatter(t, out if w.rank == 1 else None, 1),
    )


@checked
def splits_that_do_not_fit(w):
    """What one rank sends another is not what the other waits for."""
    t, one, two = torch.ones(2 * w.size), [1] * w.size, [2] * w.size
    small, large = torch.empty(w.size), torch.empty(2 * w.size)
    refused(
        w,
        lambda: dist.all_to_all_single(small, t, one, two),
        lambda: dist.all_to_all_single(large, t, two, two),
        says="gives 2 numbers to rank",
    )


@checked
def a_mismatch_of_asynchronous_calls(w):
    a, b = torch.ones(4), torch.ones(6)
    refused(
        w,
        lambda: dist.all_reduce(a, async_op=True).wait(),
        lambda: dist.all_reduce(b, async_op=True).wait(),
    )


@checked
def a_rank_that_comes_late_is_no_mismatch(w):
    late = w.number(0, w.size)
    for _ in range(3):
        if w.rank == late:
            time.sleep(0.3)
        t = torch.ones(3)
        dist.all_reduce(t)
        equal(t, torch.full((3,), float(w.size)))


@checked
def a_mismatch_within_a_sub_group_leaves_the_others_alone(w):
    group = dist.new_group([0, 1])
    if w.rank < 2:
        refused_here = False
        try:
            dist.all_reduce(torch.ones(3 + w.rank), group=group)
        except dist.DistBackendError:
            refused_here = True
        assert refused_here
        t = torch.ones(2)
        dist.all_reduce(t, group=group)
        equal(t, torch.full((2,), 2.0))
    usable(w)


@checked
def a_mismatch_seen_by_a_thread(w):
    """DDP's backward waits in a thread of autograd; an error there must come out too."""
    errors = []

    def call():
        try:
            dist.all_reduce(torch.ones(3 + (w.rank == 0)))
        except dist.DistBackendError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(errors) == 1
    usable(w)


@checked
def many_mismatches_one_after_another(w):
    for i in range(30):
        try:
            dist.all_reduce(torch.ones(i + 1 + (w.rank == i % w.size)))
        except dist.DistBackendError:
            continue
        raise AssertionError(f"mismatch {i} was not seen")
    usable(w)


@checked
def asynchronous_calls_in_opposite_order(w):
    """However far each rank has come with one check when it begins the next."""
    for round_ in range(20):
        a, b, odd = torch.ones(4), torch.ones(4), round_ % w.size
        calls = [
            lambda t=a: dist.all_reduce(t, async_op=True),
            lambda t=b: dist.broadcast(t, 0, async_op=True),
        ]
        works, errors = [], []
        for call in reversed(calls) if w.rank == odd else calls:
            try:  # a rank that comes last sees at the call that the others called something else
                works.append(call())
            except dist.DistBackendError as error:
                errors.append(str(error))
            if works and w.number(0, 2, round_, w.rank):
                time.sleep(0.002)
                works[0].is_completed()
        for work in works if w.number(0, 2, round_, w.rank, "order") else reversed(works):
            try:
                work.wait()
            except dist.DistBackendError as error:
                errors.append(str(error))
        assert len(errors) == 2, "the ranks called different things twice"
        for text in errors:
            assert text.count("all_reduce(float32[4]") and text.count("broadcast(float32[4]"), text
            assert text.isprintable() or text.replace("\n", "").isprintable(), text
        equal(b, torch.ones(4))
    usable(w)
