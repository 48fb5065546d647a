"""A lab over two hosts: its table, its cells, and that nothing is left of it, whatever ends it."""

import subprocess
import sys

import pytest

from labkit import LabError, launch
from labkit.lab import remote
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.launch import keeper, processes
from labkit.launch.runtime import RUNTIME
from tests.faults.test_faults import run
from tests.waiting import NO_HURRY, until

from .conftest import NAMES

pytestmark = pytest.mark.hosts


def test_the_table_shows_the_hosts_in_their_order_and_stop_leaves_nothing(box):
    lab = Lab(launch.plan(hosts="miriad2a:2,miriad2b:2"))
    try:
        hosts = [row[1] for row in lab.status()]
        assert hosts == ["miriad2a", "miriad2a", "miriad2b", "miriad2b"]
        assert {row[-1] for row in lab.status()} == {"ready"}
        local = "from mpi4py import MPI\nMPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).rank"
        assert [s.words() for s in run(lab, local).said] == ["0", "1", "0", "1"]
        lab.restart(ranks=3)
        assert [row[1] for row in lab.status()] == ["miriad2a", "miriad2a", "miriad2b"]
        engines = lab._engines
        for file in (engines.folder / "security").iterdir():
            assert file.stat().st_mode & 0o777 == 0o600
        assert engines.folder.stat().st_mode & 0o777 == 0o700
    finally:
        lab.stop()
    box.wait_until_empty(30)
    assert processes.of_lab(engines.lab_id) == []


def test_gloo_takes_the_network_between_the_hosts(box):
    lab = Lab(launch.plan(hosts="miriad2a:1,miriad2b:1", backend="gloo"))
    try:
        assert [row[4] for row in lab.status()] == ["gloo", "gloo"]
        cell = "import os\nx = torch.ones(1)\ndist.all_reduce(x)\nint(x), os.environ['GLOO_SOCKET_IFNAME']"
        said = run(lab, cell).said
        assert [s.words() for s in said] == ["(2, 'eth0')"] * 2
    finally:
        lab.stop()


def test_an_interrupt_reaches_the_ranks_of_every_host_and_nothing_is_lost(pair, monkeypatch):
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    lab = pair()
    run(lab, "mine = rank")
    with pytest.raises(CellError, match="deadline"):
        run(lab, "while True:\n    dist.all_reduce(torch.ones(1))", deadline=1)
    with pytest.raises(CellError, match="each waits for another"):
        run(lab, "dist.recv(torch.zeros(1), src=1 - rank)")
    assert [s.words() for s in run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\n(mine, int(x))").said] == [
        "(0, 2)",
        "(1, 2)",
    ]


def test_a_rank_that_dies_is_named_with_its_host(box, pair):
    lab = pair()
    with pytest.raises(LabError, match=r"rank 1 \(pid \d+ on miriad2b\) died: .*[Kk]illed"):
        run(lab, "import os\nif rank == 1:\n    os.kill(os.getpid(), 9)\ndist.barrier()")
    box.wait_until_empty(30)


VITAL = ("the controller", "mpiexec")


@pytest.mark.parametrize("victim", VITAL)
def test_nothing_is_left_after_kill_9(box, pair, victim):
    lab = pair()
    lab_id = lab._engines.lab_id
    assert box.processes(NAMES[0]) and box.processes(NAMES[1])
    keeper.vital(lab._engines.folder)[victim].kill()
    box.wait_until_empty(30)
    with pytest.raises(LabError, match=victim):
        lab.require_running()
    assert processes.of_lab(lab_id) == []


KERNEL = "import labkit, time\nlab = labkit.start(hosts='miriad2a:1,miriad2b:1')\nprint(lab._engines.lab_id)"


@pytest.mark.parametrize("keeper_too", [False, True], ids=["", "and of the keeper"])
def test_nothing_is_left_after_kill_9_of_the_kernel(box, keeper_too):
    kernel = subprocess.Popen(
        [sys.executable, "-u", "-c", f"{KERNEL}\ntime.sleep(600)"], stdout=subprocess.PIPE, text=True
    )
    try:
        lab_id = kernel.stdout.readline().strip()
        assert lab_id and box.processes(NAMES[1])
    finally:
        if keeper_too:
            for process in processes.of_lab(lab_id):
                if "labkit.launch.keeper" in process.cmdline():
                    process.kill()
        kernel.kill()
        kernel.wait()
    box.wait_until_empty(30)
    assert until(lambda: not processes.of_lab(lab_id))
    assert not (RUNTIME / lab_id).exists()
