"""recover(): however many ranks gave one up, and wherever, the next on all ranks makes all usable."""

import time
from contextlib import suppress

import torch
import torch.distributed as dist

from .table import case
from .world import World, interrupt_of_a_wait, usable


def given_up(seconds: float) -> str:
    """What a recover says that some rank does not come to."""
    from labkit.mpi import recover

    began = time.monotonic()
    try:
        recover(timeout=seconds)
    except RuntimeError as error:
        assert time.monotonic() - began < seconds + 15.0
        return str(error)
    raise AssertionError("not all ranks called it, yet it ended")


@case(gloo=False)
def one_rank_gave_it_up(w):
    from labkit.mpi import recover

    for round_ in range(3):
        if w.rank == round_ % w.size:
            assert "call it again on every rank" in given_up(0.1)
        dist.barrier()
        recover()
        usable(w)


@case(gloo=False)
def each_rank_gave_it_up_at_another_time(w):
    """The last finds that the others had begun, and gets further than they did."""
    from labkit.mpi import recover

    for last in range(w.size):
        for rank in (*(r for r in range(w.size) if r != last), last):
            dist.barrier()
            if w.rank == rank:
                given_up(0.1)
        dist.barrier()
        recover()
        usable(w)


@case(gloo=False)
def one_rank_was_interrupted_in_it(w):
    from labkit.mpi import recover

    if w.rank == 0:
        try:
            with interrupt_of_a_wait():
                recover()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the others are elsewhere, yet it ended")
    dist.barrier()
    recover()
    usable(w)


@case(gloo=False)
def groups_are_made_after_one_that_some_ranks_never_made(w: World):
    """torch numbers groups on each rank; who waited for one in vain has counted it."""
    from labkit.mpi import recover

    for round_ in range(3):
        if w.rank == round_ % w.size:
            with suppress(KeyboardInterrupt), interrupt_of_a_wait():
                dist.new_group()
        recover()
        group = dist.new_group()
        t = torch.ones(1)
        dist.all_reduce(t, group=group)
        assert t.item() == w.size
        usable(w)


@case(gloo=False)
def what_nobody_waited_for_is_told_with_its_reason(w: World):
    from labkit.mpi.repair.recovery import settle

    if w.rank == 0:
        dist.isend(torch.ones(1 << 20), w.next)
        dist.all_reduce(torch.ones(3), async_op=True)
    fates = [(left.call.verb, left.fate, left.ended) for left in settle()]
    missing = ", ".join(map(str, w.others)) if w.rank == 0 else ""
    expected = [("all_reduce", f"rank{'s' if w.size > 2 else ''} {missing} never called it", False)]
    unheard = ("send", "nobody received it", False)
    if w.checked or unheard in fates:  # without checked mode an MPI may copy even 4 MB aside, and be done
        expected.append(unheard)
    assert sorted(fates) == (sorted(expected) if w.rank == 0 else []), fates
    usable(w)
    if w.rank == 0:
        dist.isend(torch.ones(1 << 20), w.next)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    if w.rank == 1:
        got = torch.zeros(1 << 20)
        dist.irecv(got, 0)
    assert all(left.ended and not left.fate for left in settle())
    assert work.is_success() and (w.rank != 1 or got.sum() == 1 << 20)
    usable(w)
