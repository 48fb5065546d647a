"""Programs as people write them run as a cell and as a script, and the next cell is right.

Each file beside this one is a program that has never heard of labkit and asserts its own result. It is run as
it stands as the body of a `%%px` cell, all in one lab and one namespace as in a notebook, and under mpiexec.
"""

import re
from pathlib import Path

import pytest
from IPython.utils.capture import capture_output

from labkit import launch
from labkit.lab.lab import Lab
from labkit.lab.px import PxMagics
from labkit.launch.hosts.ports import free_port
from tests.mpi import launcher

HERE = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(HERE.glob("*.py")) if path != Path(__file__)}
RANKS = 4
DEADLINE = 90
"""Seconds, also for a compiler and for workers that import torch."""

QUICK = (
    "torchrun_hello", "argparse_options", "sys_exit_zero", "reinit_group", "fsdp2_train", "loader_fork",
    "top_level_await", "mpi_window", "mpi_futures", "graceful_signals", "gather_objects", "tensor_parallel",
)  # fmt: skip
"""As cells in `make test`, the others by `make test-all`."""

NOT_AS_A_CELL: dict[str, str] = {}
"""What labkit says instead of running a program."""

NOT_AS_A_SCRIPT = {"top_level_await": "'await' outside function"}
"""What Python says, with labkit or without."""

ALONE = (
    "torchrun_hello", "torchrun_ddp", "run_rank_size", "argparse_options", "sys_exit_zero", "early_exit",
    "atexit_summary", "loader_spawn", "rpc_add", "rpc_cell_function", "fsdp2_train", "mpi_file", "mpi_window",
    "mpi_futures", "gloo_beside_mpi", "dcp_async_save", "spawned_world", "graceful_signals",
    "compile_inductor", "process_pool_spawn", "input_no_stdin", "elastic_record", "unittest_main",
    "stdout_tricks", "chdir_tempdir",
)  # fmt: skip
"""By a command of their own: what they do at their start or end, or to their process, is what they show."""

BY_DAY = (
    "torchrun_ddp",
    "sys_exit_zero",
    "loader_spawn",
    "mpi_futures",
    "gloo_beside_mpi",
    "graceful_signals",
)
"""Of these in `make test-all`, as each takes four ranks some seconds to start; the others by night."""

TOGETHER = tuple(name for name in PROGRAMS if name not in (*ALONE, *NOT_AS_A_SCRIPT))
ONE_AFTER_THE_OTHER = """
import os, runpy, sys
import torch, torch.distributed as dist, torch.distributed.nn  # the last keeps a group that is there
from mpi4py import MPI

for path in sys.argv[1:]:
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as left:
        assert left.code in (None, 0), left
    if dist.is_initialized():
        dist.destroy_process_group()
    os.write(1, f"passed: {os.path.basename(path)}\\n".encode())  # in one piece
    MPI.COMM_WORLD.Barrier()
"""

OF_TORCHRUN = (
    "torchrun_hello",
    "torchrun_ddp",
    "rpc_add",
    "rpc_cell_function",
    "elastic_record",
    "spawned_world",
)
"""These read what torchrun sets."""
AS_TORCHRUN = """
import os, runpy, sys
from mpi4py import MPI

rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ALARM = re.compile(r"Traceback|Error|deadlock|differ|never waited for|discarded|labkit: ")
"""What no right program shows. Torch warns as it does without labkit, of what is old."""
NEXT = """
x = torch.ones(3) * (rank + 1)
dist.all_reduce(x)
gathered = [None] * world_size
dist.all_gather_object(gathered, rank)
print(x.tolist(), gathered)
"""


def test_there_are_enough():
    assert len(PROGRAMS) >= 50
    assert {*QUICK, *ALONE, *NOT_AS_A_CELL, *NOT_AS_A_SCRIPT} <= PROGRAMS.keys() and {*BY_DAY} <= {*ALONE}


@pytest.fixture(scope="module")
def lab():
    """In no test, where ipykernel would leave alone what children and libraries write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        lab = Lab(launch.plan(RANKS))
    yield lab
    lab.stop()


def cell(lab, shell, code: str, options: str = "") -> str:
    """All that the notebook shows of a cell, which ends well."""
    with capture_output() as captured:
        PxMagics(shell, lab).cell_px(options, code)
    return "\n".join(output.data["text/plain"] for output in captured.outputs)


@pytest.mark.ranks
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in PROGRAMS]
)
def test_as_a_cell(lab, shell, name):
    if not lab.is_running():  # another program has cost a rank
        lab.restart()
    code, pids = PROGRAMS[name].read_text(), [r.pid for r in lab.ranks]
    if name in NOT_AS_A_CELL:
        with pytest.raises(Exception, match=NOT_AS_A_CELL[name]):
            cell(lab, shell, code, f"--deadline {DEADLINE}")
    else:
        shown = cell(lab, shell, code, f"--deadline {DEADLINE}")
        assert not ALARM.search(shown), shown
    right = "[ranks 0-3] [10.0, 10.0, 10.0] [0, 1, 2, 3]"
    assert cell(lab, shell, NEXT, "--deadline 20").splitlines()[0] == right  # before notes
    assert pids == [r.pid for r in lab.ranks]


def run(tmp_path, *argv: str, seconds: float = 1.5 * DEADLINE) -> str:
    """What four ranks of a command print, which ends well."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    finished = launcher.run(RANKS, [*argv], tmp_path / "output.txt", seconds, **meeting)
    assert finished.code == 0 and not finished.timed_out, finished.output
    assert not ALARM.search(finished.output), finished.output
    return finished.output


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in BY_DAY else pytest.mark.nightly) for n in ALONE]
)
def test_as_a_script(tmp_path, name):
    run(tmp_path, *(("-c", AS_TORCHRUN) if name in OF_TORCHRUN else ()), str(PROGRAMS[name]))


@pytest.mark.slow
@pytest.mark.timeout(6 * DEADLINE)
def test_as_scripts_one_after_the_other(tmp_path):
    paths = [str(PROGRAMS[name]) for name in TOGETHER]
    passed = run(tmp_path, "-c", ONE_AFTER_THE_OTHER, *paths, seconds=5 * DEADLINE)
    assert passed.count("passed: ") == RANKS * len(TOGETHER)
