"""Ctrl-C in every kind of wait: KeyboardInterrupt at once, then one call, and all works again."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as f
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from .table import case
from .world import World, interrupt_of_a_wait, usable

AT_ONCE = 0.2  # seconds from the signal to the exception; most often less than a thousandth
HELD_UP = 15.0  # the same where a busy machine did not let the process run


def interrupted(w: World, block: Callable[[], object], after: float = 0.15, meet: str = "") -> float:
    """Block, get SIGINT, be out of it; recover together; the group works. The seconds that it took.

    Nobody recovers before the signals of all have come, if they `meet` under a name of this round's.
    """
    from labkit.mpi import recover

    sent = []

    def interrupt():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, interrupt)
    try:
        timer.start()  # on a busy machine the signal may come before this returns
        block()
    except KeyboardInterrupt:
        took = time.monotonic() - sent[0]
    else:
        timer.cancel()
        raise AssertionError("the call ended before it was interrupted")
    if meet:
        w.meet(meet)
    recover()
    usable(w)
    return took


def all_but_one(w: World, block: Callable[[], object], round_: int) -> Callable[[], object]:
    """What blocks every rank: one waits for a message that nobody sends, so the others' call never ends."""
    absent = round_ % w.size
    return (lambda: dist.recv(torch.empty(1), w.next, tag=99)) if w.rank == absent else block


def in_recv(w: World, round_: int) -> Callable[[], object]:
    return lambda: dist.recv(torch.empty(4), w.next)


def in_all_reduce(w: World, round_: int) -> Callable[[], object]:
    size = (4, 3_000_000)[round_ % 2]
    return all_but_one(w, lambda: dist.all_reduce(torch.ones(size)), round_)


def in_barrier(w: World, round_: int) -> Callable[[], object]:
    return all_but_one(w, dist.barrier, round_)


def in_backward(w: World, round_: int) -> Callable[[], object]:
    model = DDP(nn.Linear(300, 300), bucket_cap_mb=0.1)
    # A closure over the model: when it dies, its hooks do, and backward would communicate no more.
    return all_but_one(w, lambda: model(torch.ones(8, 300)).sum().backward(), round_)


def in_large_send(w: World, round_: int) -> Callable[[], object]:
    return lambda: dist.send(torch.ones(2_000_000), w.next)


def in_wait_of_asynchronous_work(w: World, round_: int) -> Callable[[], object]:
    return all_but_one(w, lambda: dist.all_reduce(torch.ones(9), async_op=True).wait(), round_)


def in_functional_wait(w: World, round_: int) -> Callable[[], object]:
    group = dist.group.WORLD
    return all_but_one(w, lambda: f.wait_tensor(f.all_reduce(torch.ones(9), "sum", group)), round_)


def in_new_group(w: World, round_: int) -> Callable[[], object]:
    return all_but_one(w, dist.new_group, round_)


FOUR = (in_recv, in_all_reduce, in_barrier, in_backward)


def at_once(seconds: list[float]) -> str:
    """Check how long the exceptions took; what the report of the case says of it."""
    # The shortest: a wait that looks for signals too seldom is late each time, a busy machine now and then.
    shortest, longest = min(seconds), max(seconds)
    assert shortest < AT_ONCE and longest < HELD_UP, seconds
    return f"{shortest * 1e3:.1f} to {longest * 1e3:.1f} ms, of {len(seconds)}"


def rounds(w: World, where: Callable, count: int) -> str:
    return at_once([interrupted(w, where(w, i)) for i in range(count)])


@case(gloo=False)
def recv_can_be_interrupted(w):
    return rounds(w, in_recv, 3)


@case(gloo=False)
def all_reduce_can_be_interrupted(w):
    return rounds(w, in_all_reduce, 4)


@case(gloo=False)
def barrier_can_be_interrupted(w):
    return rounds(w, in_barrier, 3)


@case(gloo=False)
def ddp_backward_can_be_interrupted(w):
    return rounds(w, in_backward, 3)


@case(gloo=False)
def a_large_send_can_be_interrupted(w):
    # With Intel MPI a rank that recovers may take its neighbour's message in, whose send then ends.
    return at_once([interrupted(w, in_large_send(w, i), meet=f"round {i}") for i in range(4)])


@case(gloo=False)
def the_wait_of_asynchronous_work_can_be_interrupted(w):
    return rounds(w, in_wait_of_asynchronous_work, 4)


@case(gloo=False)
def functional_collectives_can_be_interrupted(w):
    # The first one loads and registers, in C, what no signal stops: what is timed is the wait.
    f.wait_tensor(f.all_reduce(torch.ones(9), "sum", dist.group.WORLD))
    return rounds(w, in_functional_wait, 4)


@case(gloo=False, deadline=120)
def fifty_interrupts_in_a_row(w):
    return at_once([interrupted(w, FOUR[i % 4](w, i), after=0.03) for i in range(50)])


@case(gloo=False, deadline=1200, nightly=True)
def fifty_interrupts_in_a_row_of_each_kind(w):
    return at_once([interrupted(w, where(w, i), after=0.03) for where in FOUR for i in range(50)])


@case(gloo=False)
def an_interrupted_recv_leaves_the_group_as_it_was(w):
    """A receive can be taken back, so nothing needs to be recovered."""
    with suppress(KeyboardInterrupt), interrupt_of_a_wait():
        dist.recv(torch.empty(4), w.next)
    usable(w)


@case(gloo=False)
def after_an_interrupt_all_ranks_count_alike(w):
    """One rank was never in the call that the others gave up: what is numbered must match again."""
    interrupted(w, in_all_reduce(w, 1))
    dist.monitored_barrier(timeout=timedelta(seconds=60))
    counts = [None] * w.size
    dist.all_gather_object(counts, dist.group.WORLD.sequence)
    assert len(set(counts)) == 1, counts


@case(gloo=False)
def an_interrupt_of_one_rank_taints_only_its_own_group(w):
    """The interrupted rank says so at its next call; other groups go on."""
    from labkit.mpi import TaintedError, recover

    group = dist.new_group([0, 1])
    dist.barrier()
    if w.rank == 0:
        with suppress(KeyboardInterrupt), interrupt_of_a_wait():
            dist.all_reduce(torch.ones(3), group=group)
        try:
            dist.all_reduce(torch.ones(3), group=group)
        except TaintedError as error:
            assert "recover" in str(error), error
        else:
            raise AssertionError("the group was given up, yet it took another call")
    usable(w)
    recover()
    if w.rank < 2:
        t = torch.ones(3)
        dist.all_reduce(t, group=group)
        assert t.tolist() == [2.0, 2.0, 2.0]
    usable(w)
