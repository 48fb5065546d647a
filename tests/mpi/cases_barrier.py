"""barrier and monitored_barrier: nobody leaves before everybody came."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .table import case
from .world import usable


@case()
def nobody_leaves_before_the_last_came(w):
    late = w.number(0, w.size)
    if w.rank == late:
        time.sleep(0.3)
    arrived = torch.tensor([time.monotonic()], dtype=torch.float64)
    dist.barrier()
    left = time.monotonic()
    dist.all_reduce(arrived, dist.ReduceOp.MAX)
    assert left >= arrived.item(), (left, arrived.item())


@case()
def asynchronous_barrier(w):
    work = dist.barrier(async_op=True)
    work.wait()
    assert work.is_completed()


@case(sizes=(3, 4))
def barrier_of_a_sub_group_needs_only_its_members(w):
    group = dist.new_group([0, 1])
    if w.rank < 2:
        dist.barrier(group=group)
        dist.destroy_process_group(group)


@case()
def monitored_barrier_lets_everybody_through(w):
    dist.monitored_barrier(timeout=timedelta(seconds=60))
    dist.monitored_barrier(timeout=timedelta(seconds=60), wait_all_ranks=True)


@case(gloo=False)
def monitored_barrier_names_who_is_missing(w):
    missing = w.size - 1
    if w.rank == missing:
        time.sleep(1.5)
    else:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
        except RuntimeError as error:
            if w.rank == 0:
                assert str(missing) in str(error), error
        else:
            raise AssertionError("one rank never came, yet the barrier ended")
        time.sleep(1.5)
    from labkit.mpi import recover

    recover()
    usable(w)
