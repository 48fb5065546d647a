"""What a rank's world is made of, and what programs find in it."""

import socket
import sys

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.px import PxMagics

FIND = """
from torch.distributed.distributed_c10d import _get_default_store
store = _get_default_store()
while hasattr(store, "underlying_store"):
    store = store.underlying_store
"""


def test_ranks_meet_in_a_file_of_their_own(labs, ask):
    assert ask(labs(2)[:], "type(store).__name__", FIND) == ["FileStore"] * 2


TORCHRUN = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
SCRIPT = """\
import argparse, sys
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
dist.init_process_group(parser.parse_args().backend)
total = torch.tensor(dist.get_rank() + 1.0)
dist.all_reduce(total)
print(dist.get_rank(), dist.get_world_size(), total.item())
dist.destroy_process_group()
"""
CHILD = (
    "import subprocess, sys\nsaid = subprocess.run([sys.executable, *{}], capture_output=True, text=True)\n"
)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ranks_have_the_environment_that_torchrun_gives(labs, ask, n):
    found = ask(labs(n)[:], f"[os.environ.get(name) for name in {TORCHRUN}]", "import os")
    assert len({port for *_, port in found}) == 1 and int(found[0][-1]) > 0
    assert [names[:-1] for names in found] == [
        [str(r), str(n), str(r), str(n), "0", "127.0.0.1"] for r in range(n)
    ]


def test_a_lab_of_another_size_and_another_lab_have_their_own(ask, labs):
    import labkit

    lab = labkit.start(2)
    try:
        name = "(os.environ['WORLD_SIZE'], os.environ['LOCAL_WORLD_SIZE'], os.environ['MASTER_PORT'])"
        other = {port for *_, port in ask(labs(2)[:], name, "import os")}
        lab.restart(ranks=1)
        [(*sizes, port)] = ask(lab[:], name, "import os")
        assert sizes == ["1", "1"] and port not in other
    finally:
        lab.stop()


def test_nobody_else_is_given_that_port_and_nobody_listens_there(labs, ask):
    [port, _] = ask(labs(2)[:], "int(os.environ['MASTER_PORT'])", "import os")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    if sys.platform == "linux":
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_a_lab_with_clean_namespaces_has_that_environment_again(labs, ask):
    ask(
        labs(2)[:],
        "0",
        "import os, sys\nos.environ.update(RANK='7', MASTER_PORT='1')\nsys.argv[:] = ['x', '--no']",
    )
    found = ask(
        labs(2)[:], "(os.environ['RANK'], os.environ['MASTER_PORT'] != '1', sys.argv)", "import os, sys"
    )
    assert found == [(str(r), True, ["cell"]) for r in range(2)]


def test_a_script_that_every_rank_starts_makes_a_world_of_its_own_twice(labs, ask, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for _ in range(2):
        found = ask(labs(2)[:], "said.stdout or said.stderr", CHILD.format([str(script)]))
        assert found == ["0 2 3.0\n", "1 2 3.0\n"]


def test_a_group_of_their_own_is_made_by_cells_again_and_again(labs, shell):
    magics = PxMagics(shell, labs(2))
    cell = """import time
for n in range(3):
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method="env://")
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total == 2 and dist.get_backend() == "gloo"
    if rank == 0: time.sleep(0.2)"""
    with capture_output():
        magics.cell_px("", cell)
        magics.cell_px("", f"{cell}\nassert dist.get_world_size() == 2")
        magics.cell_px("", "total = torch.ones(1)\ndist.all_reduce(total)\nassert total == 2")


def test_children_inherit_it_and_are_no_ranks_of_the_labs_mpi(labs, ask):
    print_it = "import os; from mpi4py import MPI; print(os.environ['LOCAL_RANK'], MPI.COMM_WORLD.size)"
    found = ask(labs(2)[:], "said.stdout or said.stderr", CHILD.format(["-c", print_it]))
    assert found == ["0 1\n", "1 1\n"]
    fork = "import multiprocessing as mp, os\nqueue = mp.get_context('fork').SimpleQueue()\n"
    fork += "child = mp.get_context('fork').Process(target=lambda: queue.put(os.environ['RANK']))\n"
    assert ask(labs(2)[:], "queue.get()", f"{fork}child.start()\nchild.join()") == ["0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["torch.distributed.run", "mpiexec"])
def test_what_starts_processes_itself_can_be_started_from_a_cell(labs, ask, tmp_path, start):
    script, lab = tmp_path / "script.py", labs(2)
    script.write_text(SCRIPT if start != "mpiexec" else "from mpi4py import MPI; print(MPI.COMM_WORLD.size)")
    command = ["-m", start, "--standalone", "--nproc-per-node", "2", str(script)]
    code = CHILD.format(command)
    if start == "mpiexec":
        mpiexec = [lab.plan.mpi.mpiexec, "-n", "2", sys.executable, str(script)]
        code = f"import subprocess\nsaid = subprocess.run({mpiexec}, capture_output=True, text=True)\n"
    [found] = ask(lab[[0]], "said.stdout or said.stderr", code)
    assert sorted("".join(found.split())) == sorted("22" if start == "mpiexec" else "023.0123.0"), found


ARGUMENTS = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("files", nargs="*")"""


def test_a_cell_has_no_arguments_and_no_file(labs, ask):
    found = ask(labs(2)[:], "(vars(parser.parse_args()), parser.format_usage())", ARGUMENTS)
    assert found == [({"lr": 0.1, "files": []}, "usage: cell [-h] [--lr LR] [files ...]\n")] * 2
    assert ask(labs(2)[:], "('__file__' in globals(), __name__)") == [(False, "__main__")] * 2
