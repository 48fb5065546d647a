"""Labs under a real Slurm: from a login node, in an allocation, and at their several ends."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from labkit import LabError, launch
from labkit.commands import export
from labkit.commands.__main__ import main
from labkit.lab import remote
from labkit.lab.cell import follow
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.launch import slurm
from labkit.launch.hosts.ports import free_port
from tests.environments import environment_without
from tests.lessons import lesson, said
from tests.slurm.conftest import ROOT
from tests.waiting import NO_HURRY, until, until_ranks, waits

pytestmark = pytest.mark.slurm


@pytest.fixture
def lab(jobs):
    lab = Lab(launch.plan(4, launcher="slurm"))
    yield lab
    lab.stop()


def test_ranks_fill_the_nodes_in_order_and_go_with_the_lab(lab, jobs, ask, monkeypatch):
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    assert lab[:]["rank"] == [0, 1, 2, 3]
    assert ask(lab[:], "os.environ['SLURMD_NODENAME']", "import os") == ["n1", "n1", "n2", "n2"]
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    found = ask(lab[:], f"[int(os.environ[name]) for name in {names}]", "import os")
    assert found == [[0, 4, 0, 2, 0], [1, 4, 1, 2, 0], [2, 4, 0, 2, 1], [3, 4, 1, 2, 1]]
    assert len(set(ask(lab[:], "(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])", "import os"))) == 1
    assert jobs() == [slurm.job(lab._engines.lab_id)]
    assert [row[-1] for row in lab.status()] == ["ready"] * 4
    result = lab[:].execute("while True: pass", silent=False, block=False)
    with pytest.raises(CellError, match="the deadline of 1 s passed"):
        follow(lab, result, deadline=1.0).raise_for_failure()
    assert ask(lab[:], "dist.get_world_size()") == [4] * 4
    lab.stop()
    assert until(lambda: jobs() == [], 60)


def test_a_rank_that_dies_ends_the_job_and_is_named(lab, jobs):
    os.kill(lab.ranks[2].pid, signal.SIGKILL)
    assert until(lambda: not lab.is_running(), 60)
    with pytest.raises(LabError, match=r"rank 2 \(pid \d+ on \S+\) died: Killed"):
        lab.require_running()
    assert until(lambda: jobs() == [], 60)


MEMORY_IN_USE = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
given = []
for size in [size for size in range(64, 2000, 16) for _ in range(100)]:
    address = libc.malloc(size)
    ctypes.memmove(address, os.urandom(size), size)
    given.append(address)
for address in given[::10]:  # holes, and random bytes behind each
    libc.free(address)
from mpi4py import MPI
print(MPI.COMM_WORLD.allreduce(1))
"""


def test_ranks_whose_memory_was_in_use_find_each_other(jobs, tmp_path):
    """MPICH tells Slurm about a rank's address, and what lies behind it; that must fit a line."""
    program = tmp_path / "in_use.py"
    program.write_text(MEMORY_IN_USE)
    command = [
        sys.executable,
        "-m",
        "labkit.commands",
        "run",
        "--launcher",
        "slurm",
        "--ranks",
        "4",
        str(program),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["4"] * 4, done.stderr[-2000:]


KERNEL = "import labkit, time; labkit.start(2, launcher='slurm'); print('up', flush=True); time.sleep(600)"


def test_nothing_is_left_after_the_kernel_is_killed(jobs):
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True)
    try:
        assert kernel.stdout.readline() == "up\n" and len(jobs()) == 1
    finally:
        kernel.kill()
        kernel.wait()
    assert until(lambda: jobs() == [], 60)


def test_nothing_is_left_after_a_failed_start(jobs, monkeypatch):
    monkeypatch.setattr(launch.Plan, "program", lambda plan: [sys.executable, "-c", "raise SystemExit('no')"])
    with pytest.raises(LabError, match="0 came up") as caught:
        Lab(launch.plan(2, launcher="slurm"))
    assert "Exited with exit code 1" in caught.value.found
    assert until(lambda: jobs() == [], 60)


def test_a_full_partition_is_told_in_time(jobs, monkeypatch):
    wrapped = ["sbatch", "-N2", "-n4", "--output=/dev/null", "--job-name=full", "--wrap=sleep 100"]
    subprocess.run(wrapped, check=True, timeout=20, capture_output=True)
    running = ["squeue", "--noheader", "--format=%T"]
    assert until(lambda: b"RUNNING" in subprocess.run(running, capture_output=True).stdout, 60)
    monkeypatch.setenv(slurm.WAIT, "3")
    began = time.monotonic()
    with pytest.raises(LabError, match="no nodes came free within 3 s") as caught:
        Lab(launch.plan(4, launcher="slurm"))
    took = time.monotonic() - began
    assert jobs() == ["full"] and f"{slurm.WAIT}=600" in caught.value.fix
    subprocess.run(["scancel", "--name=full"], timeout=20)
    assert until(lambda: jobs() == [], 60)
    load = max(1.0, os.getloadavg()[0] / os.cpu_count())
    assert took < 3 + 10 * load, took


def test_what_the_site_does_not_have_is_told(jobs, monkeypatch):
    monkeypatch.setenv("SLURM_PARTITION", "nowhere")
    with pytest.raises(LabError, match="(?i)invalid partition.*\nfix:   ask for what `sinfo`"):
        Lab(launch.plan(2, launcher="slurm"))


INSIDE = """
import labkit, os, subprocess
lab = labkit.start(3, launcher="slurm")
print(lab[:]["rank"], flush=True)
names = subprocess.run(["squeue", "--noheader", "--format=%j"], capture_output=True, text=True).stdout.split()
print(names, flush=True)
lab.stop()
steps = subprocess.run(["squeue", "--steps", "--noheader", "--format=%j"], capture_output=True, text=True)
print("labkit" in steps.stdout, flush=True)
"""


def test_in_an_allocation_a_lab_is_a_step_of_it(jobs):
    asked = ["salloc", "--quiet", "-n2", "--job-name=around", sys.executable, "-c", INSIDE]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[0, 1, 2]", "['around']", "False"], done.stderr
    assert until(lambda: jobs() == [], 60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", ["01", pytest.param("04", marks=pytest.mark.nightly)])
def test_a_lesson_passes_unchanged(number, jobs):
    asked = [
        "-m",
        "pytest",
        "--nbval",
        "--nbval-cell-timeout=120",
        "-p",
        "no:cacheprovider",
        str(lesson(number)),
    ]
    env = os.environ | {"LABKIT_LAUNCHER": "slurm"}
    command = [sys.executable, *asked]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:]
    assert until(lambda: jobs() == [], 60)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python without labkit."""
    return environment_without(("labkit",), tmp_path_factory.mktemp("bare"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "number, ranks", [("01", 4), ("02", 3), pytest.param("04", 4, marks=pytest.mark.nightly)]
)
def test_an_exported_lesson_says_under_srun_what_the_lesson_says(number, ranks, bare, jobs, tmp_path):
    script = tmp_path / "lesson.py"
    script.write_text(export.script(lesson(number)))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LABKIT_", "PYTHONPATH", "MASTER_"))}
    env |= {"OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port())}
    command = ["srun", "-n", str(ranks), "--output=rank%t", bare, script]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = [(tmp_path / f"rank{rank}").read_text().splitlines() for rank in range(ranks)]
    assert found == said(lesson(number), ranks)


MEET = """
import torch, torch.distributed as dist
exec({preamble!r}, globals())
x = torch.ones(1)
dist.all_reduce(x)
print(f"{{rank}}: {{x.item():g}} of {{world_size}}\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path):
    """A script as `labkit export` begins it."""
    file = tmp_path / "script.py"
    file.write_text(MEET.format(preamble="from os import environ as env\n" + export.PREAMBLE))
    return file


def test_run_starts_a_script_where_a_lab_would_be(script, jobs, capfd):
    assert main(["run", "--ranks", "3", "--launcher", "slurm", str(script)]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == [f"{rank}: 3 of 3" for rank in range(3)]


def test_the_template_for_scripts(script, jobs, tmp_path):
    env = os.environ | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    command = ["sbatch", "--wait", "-n4", ROOT / "cluster/slurm/script.sbatch", script]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    [output] = tmp_path.glob("script-*.txt")
    assert done.returncode == 0, output.read_text()
    assert sorted(output.read_text().splitlines()) == [f"{rank}: {rank}: 4 of 4" for rank in range(4)]


def test_the_template_for_jupyterlab(jobs, tmp_path):
    env = os.environ | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    tmp_path.joinpath("notebooks").mkdir()
    command = ["sbatch", "-n2", ROOT / "cluster/slurm/lab.sbatch"]
    subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True, timeout=60)
    printed = lambda: "".join(p.read_text() for p in tmp_path.glob("labkit-*.txt"))  # noqa: E731
    try:
        assert until(lambda: re.search(r"http://localhost:\d+/lab\S*\?token=", printed()), 90), printed()
    finally:
        subprocess.run(["scancel", "--name=labkit"], timeout=20)
    assert until(lambda: jobs() == [], 60)
    assert [oct(p.stat().st_mode & 0o077) for p in tmp_path.glob("labkit-*.txt")] == ["0o0"]


STOPS = """\
loss = torch.tensor(rank + 1.0)
if rank == 3:
    breakpoint()
    loss *= 10
dist.all_reduce(loss)
assert loss == 46"""


def test_a_rank_of_a_job_stops_in_pdb(lab, session):
    alone = partial(until_ranks, are=waits, ranks=[0, 1, 2])
    typed = (alone, "p loss"), "import os", "p os.environ['SLURMD_NODENAME']", "rank 0", "n", "go"
    transcript, error = session(STOPS, *typed, lab=lab)
    assert error is None
    assert "[rank 3] line 4: breakpoint()" in transcript and "[rank 3] line 5: loss *= 10" in transcript
    assert "[rank 3] tensor(4.)" in transcript and "[rank 3] 'n2'" in transcript
    assert "rank 0 has not stopped: it is waiting, line 6: dist.all_reduce(loss)" in transcript


def test_an_interrupt_ends_a_stop_in_a_job(lab, session):
    def interrupted(lab):
        raise KeyboardInterrupt

    transcript, error = session(STOPS, "p loss", interrupted, lab=lab)
    assert str(error).startswith("interrupted")
    assert lab[:]["rank"] == [0, 1, 2, 3]
