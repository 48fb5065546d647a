"""Begin, end and begin again; what a group says of itself."""

from datetime import timedelta

import torch
import torch.distributed as dist

from .table import case
from .world import equal, fold, usable


@case(gloo=False)
def the_group_says_what_it_is(w):
    assert dist.get_backend() == "mpi"
    assert dist.is_initialized() and dist.get_rank() == w.rank and dist.get_world_size() == w.size
    assert dist.group.WORLD.name()
    assert dist.group.WORLD.size() == w.size and dist.group.WORLD.rank() == w.rank


@case(gloo=False, deadline=120)
def destroy_and_init_again(w):
    for _ in range(5):
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group("mpi")
        usable(w)
        group = dist.new_group([0, 1])
        t = w.mine(3)
        if w.rank < 2:
            dist.all_reduce(t, group=group)
            equal(t, w.data(0, 3) + w.data(1, 3))


@case(gloo=False)
def init_takes_the_words_of_a_torchrun_script(w):
    dist.destroy_process_group()
    dist.init_process_group(backend="mpi", rank=w.rank, world_size=w.size, timeout=timedelta(seconds=60))
    usable(w)


@case(gloo=False)
def work_in_flight_survives_its_last_reference(w):
    t, u = w.mine(200_000, salt=1), w.mine(200_000, salt=2)
    dist.all_reduce(t, async_op=True)
    dist.all_reduce(u, async_op=True).wait()
    dist.barrier()
    equal(u, fold(torch.add, w.all(200_000, salt=2)))


@case(gloo=False)
def threads_may_share_a_group(w):
    """Autograd's own threads call collectives too; two groups keep the order of each."""
    import threading

    groups = [dist.new_group(), dist.new_group()]
    found = [torch.full((1000,), float(i)) for i in range(2)]

    def work(i):
        for _ in range(20):
            dist.all_reduce(found[i], group=groups[i])
            found[i] /= w.size

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(2):
        equal(found[i], torch.full((1000,), float(i)))
