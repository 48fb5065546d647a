"""Nothing grows: memory and open requests stay flat over thousands of calls."""

import gc
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Timer

import torch
import torch.distributed as dist

from labkit import LabError

from .table import case
from .world import World, usable

MEBIBYTE = 2**20


def resident() -> int:
    """Bytes of this process in memory."""
    import psutil

    gc.collect()
    return psutil.Process().memory_info().rss


def open_requests() -> int:
    """MPI requests that any Python object still holds, the finished ones excepted."""
    from mpi4py import MPI

    gc.collect()
    held = [o for o in gc.get_objects() if type(o) is MPI.Request]
    return sum(o != MPI.REQUEST_NULL for o in held)


def flat(w: World, turn: Callable[[int], object], count: int, allowed: int = 2 * MEBIBYTE) -> str:
    """After a warm-up of a fifth, `count` turns leave memory and open requests where they were."""
    for i in range(count // 5):
        turn(i)
    requests, before = open_requests(), resident()
    for i in range(count):
        turn(i)
    grown = resident() - before
    assert open_requests() <= requests, (open_requests(), requests)
    assert grown < allowed, f"{grown / MEBIBYTE:.1f} MiB more after {count} turns"
    usable(w)
    return f"{grown / 1024:.0f} KiB more after {count} turns"


def collectives(w: World) -> Callable[[int], object]:
    t, whole = torch.ones(16), torch.ones(16 * w.size)

    def turn(i: int) -> None:
        kind = i % 5
        if kind == 0:
            dist.all_reduce(t)
            t.fill_(1)
        elif kind == 1:
            dist.broadcast(t, i % w.size)
        elif kind == 2:
            dist.all_gather_into_tensor(whole, t)
        elif kind == 3:
            dist.all_reduce(whole, async_op=True).wait()
            whole.fill_(1)
        else:
            dist.barrier()

    return turn


def interrupt_of_recv(w: World) -> Callable[[int], object]:
    with suppress(LabError):  # the first exception that passes C++ has it read 2 MiB of its libraries' tables
        dist.group.WORLD.recv([torch.empty(1)], w.size, 0)

    def turn(i: int) -> None:
        timer = Timer(0.002, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            timer.start()
            dist.recv(torch.empty(1000), w.next)
        except KeyboardInterrupt:
            pass
        timer.join()

    return turn


def groups(w: World) -> Callable[[int], object]:
    def turn(i: int) -> None:
        group = dist.new_group(list(range(w.size)))
        dist.all_reduce(torch.ones(4), group=group)
        dist.destroy_process_group(group)

    return turn


@case(gloo=False, sizes=(2,), deadline=120)
def a_thousand_collectives_leave_nothing(w):
    return flat(w, collectives(w), 1000)


@case(gloo=False, sizes=(2,), deadline=120)
def a_hundred_interrupts_of_a_recv_leave_nothing(w):
    return flat(w, interrupt_of_recv(w), 100)


@case(gloo=False, sizes=(2,), deadline=120)
def twenty_sub_groups_leave_nothing(w):
    return flat(w, groups(w), 20)


@case(gloo=False, deadline=300, nightly=True)
def ten_thousand_collectives_leave_nothing(w):
    return flat(w, collectives(w), 10_000)


@case(gloo=False, deadline=300, nightly=True)
def a_thousand_interrupts_of_a_recv_leave_nothing(w):
    return flat(w, interrupt_of_recv(w), 1000)


@case(gloo=False, deadline=300, nightly=True)
def a_hundred_sub_groups_leave_nothing(w):
    return flat(w, groups(w), 100)


@case(gloo=False, sizes=(2,), deadline=300, nightly=True)
def more_sub_groups_than_mpi_has_room_for_at_once(w):
    """MPICH holds about two thousand communicators: groups that were destroyed must give theirs back."""
    turn = groups(w)
    for i in range(3000):
        turn(i)
    usable(w)


@case(gloo=False, deadline=120, nightly=True)
def recoveries_leave_nothing(w):
    """Each gives up an all_reduce that one rank never enters."""
    from labkit.mpi import recover

    def turn(i: int) -> None:
        if w.rank:
            timer = Timer(0.002, lambda: os.kill(os.getpid(), signal.SIGINT))
            try:
                timer.start()
                dist.all_reduce(torch.ones(1000))
                time.sleep(1)
            except KeyboardInterrupt:
                pass
            timer.join()
        recover()

    return flat(w, turn, 100, allowed=4 * MEBIBYTE)
