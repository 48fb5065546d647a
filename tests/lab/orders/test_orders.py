"""`%%px --orders` on real ranks: no wrong order is missed, and none is told that is not there."""

import os
import re
import signal
import threading
import time

import psutil
import pytest
from IPython.utils.capture import capture_output

from labkit import LabError, launch
from labkit.lab.lab import Lab
from labkit.lab.orders import run as running
from labkit.lab.orders.orders import End
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.conftest import in_tiers

from .programs import PROGRAMS


def in_every_order(shell, lab, source, options=""):
    with capture_output():
        PxMagics(shell, lab).cell_px(f"--orders {options}", source)
    return lab.last.orders


def copies(lab):
    """Processes that were forked of this lab's ranks."""
    return [child for rank in lab.ranks for child in psutil.Process(rank.pid).children()]


@pytest.mark.parametrize("name", in_tiers(PROGRAMS, 6, 12))
def test_orders_are_those_counted_by_hand(labs, shell, name):
    source, known = PROGRAMS[name]
    orders = in_every_order(shell, labs(4), source)
    found = {end: len(orders.of(end)) for end in End}
    assert found == {End.RIGHT: known.right, End.ERROR: known.error, End.DEADLOCK: known.deadlock}, orders
    assert len(orders.results) == (known.results if known.right else 0), orders
    assert not orders.unexplored


FIRST = """
x = torch.zeros(1)
if rank == 0:
    dist.recv(x)
    dist.recv(x, 2)
elif rank < 3:
    dist.send(x, 0)
"""


def test_a_deadlock_is_told_with_its_history(labs, shell):
    orders = in_every_order(shell, labs(4), FIRST)
    told = repr(orders)
    assert told.startswith("right in 1 of 2 orders, deadlocks in 1")
    assert re.search(r"rank 0 gets the message of rank 2 in line \d: dist.recv\(x\)\n", told)
    (deadlock,) = orders.of(End.DEADLOCK)
    assert deadlock.history.stuck == (0,)
    assert "rank 0 could never go on" in told and "message from 1 to 0" in told


def test_both_results_of_a_race_are_told(labs, shell):
    source, _ = PROGRAMS["who is first of two"]
    told = repr(in_every_order(shell, labs(4), source))
    assert told.startswith("a race: 2 different results in 2 of 2 orders")
    assert "[rank 0] [1, 2]" in told and "[rank 0] [2, 1]" in told


def test_the_ranks_themselves_have_not_run_it(labs, shell):
    lab = labs(4)
    PxMagics(shell, lab).cell_px("", "value = 1")
    in_every_order(shell, lab, "value += 1; dist.barrier()")
    orders = in_every_order(shell, lab, "value += 1; print(value)")
    assert repr(orders).endswith("[ranks 0-3] 2")
    with capture_output():
        PxMagics(shell, lab).cell_px("", "x = torch.ones(1); dist.all_reduce(x); print(value, x)")
    assert repr(lab.last) == "[ranks 0-3] 1 tensor([4.])"


def test_nothing_is_left_of_copies(labs, shell):
    lab = labs(4)
    in_every_order(shell, lab, FIRST)
    files = [psutil.Process(rank.pid).num_fds() for rank in lab.ranks]
    in_every_order(shell, lab, FIRST)
    assert copies(lab) == [] and not (lab.folder / "orders").exists()
    assert [psutil.Process(rank.pid).num_fds() for rank in lab.ranks] == files


def test_an_interrupt_ends_it_and_the_copies(labs, shell):
    lab = labs(4)

    def interrupt():
        while not copies(lab):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(CellError, match="interrupted"):
        in_every_order(shell, lab, "while True: pass")
    assert copies(lab) == []
    assert len(in_every_order(shell, lab, "dist.barrier()")) == 1


def test_a_copy_that_ends_itself_is_told(labs, shell):
    orders = in_every_order(shell, labs(4), "import os\nif rank == 1: os._exit(3)\ndist.barrier()")
    assert len(orders) == 0
    assert repr(orders) == "not explored: all orders, since in one rank 1 ended its process"


def test_a_copy_that_computes_for_ever_is_told(labs, shell, monkeypatch):
    monkeypatch.setattr("labkit.lab.orders.copies.PATIENCE", 1.0)
    orders = in_every_order(shell, labs(4), "while rank == 2: pass\ndist.barrier()")
    assert re.search(r"rank 2 computed for \d s without a call", repr(orders))
    assert copies(labs(4)) == []


def test_it_is_bounded_and_says_so(labs, shell, monkeypatch):
    monkeypatch.setattr(running, "MOST", 3)
    source, _ = PROGRAMS["a sum of three from anybody"]
    orders = in_every_order(shell, labs(4), source)
    assert len(orders) == 3 and orders.unexplored == "not explored: orders after the first 3"


def test_a_cell_that_goes_by_the_time_is_told(labs, shell):
    source = """
    import time
    x = torch.zeros(1)
    if rank == 0:
        for _ in range(3):
            dist.recv(x)
    elif rank > 1 or time.time_ns() % 2:
        dist.send(x, 0)
    """
    runs = (in_every_order(shell, labs(4), source) for _ in range(20))
    assert any("did not receive the same again" in orders.unexplored for orders in runs)


def test_mpi4py_is_refused_in_words(labs, shell):
    orders = in_every_order(shell, labs(4), "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()")
    assert "only torch.distributed is played in every order" in repr(orders)


def test_pdb_is_refused_in_words(labs, shell):
    orders = in_every_order(shell, labs(4), "breakpoint()\ndist.barrier()")
    assert "nobody can answer pdb in a copy of a rank" in repr(orders)


@pytest.mark.slow
def test_a_copy_that_is_killed_while_it_waits_is_told(labs, shell):
    """By another copy, while it waits for it: what the notebook answers reaches nobody."""
    source = """
    import os, signal, time
    x = torch.zeros(1)
    pids = [torch.tensor([os.getpid()]) for _ in range(world_size)]
    dist.all_gather(pids, pids[rank].clone())
    if rank == 0:
        dist.recv(x, 1)
    if rank == 1:
        time.sleep(0.5)
        os.kill(pids[0].item(), signal.SIGKILL)
        dist.send(x, 0)
    """
    orders = in_every_order(shell, labs(4), source)
    assert repr(orders) == "not explored: all orders, since in one rank 0 ended its process"
    assert copies(labs(4)) == []


@pytest.mark.parametrize("option", ["--trace", "--noblock", "--targets 1", "--deadline 3", "--pdb"])
def test_what_it_does_not_go_with_is_refused(labs, shell, option):
    with pytest.raises(LabError, match="--orders with " + option.split()[0]):
        in_every_order(shell, labs(4), "dist.barrier()", option)


@pytest.mark.slow
def test_a_rank_that_dies_meanwhile_is_named(shell):
    lab = Lab(launch.plan(2, backend="mpi"))
    try:
        threading.Timer(1.5, lambda: os.kill(lab.ranks[1].pid, signal.SIGKILL)).start()
        with pytest.raises(LabError, match="rank 1 .*died"):
            in_every_order(shell, lab, "while True: pass")
        lab.restart()
        assert len(in_every_order(shell, lab, "dist.barrier()")) == 1
    finally:
        lab.stop()


@pytest.mark.slow
def test_another_backend_is_refused(shell):
    lab = Lab(launch.plan(2, backend="gloo"))
    try:
        with pytest.raises(LabError, match="backend gloo"):
            in_every_order(shell, lab, "dist.barrier()")
    finally:
        lab.stop()
