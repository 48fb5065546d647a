"""Nothing that an MPI makes outlives a lab: no shared memory, and no file among the temporary ones."""

import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from labkit.launch import mpi_files, processes
from tests.faults.small import with_shared_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory has names on Linux alone")

HOLD = "import mmap, sys, time; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); \
print(flush=True); time.sleep(60)"


def test_a_lab_that_runs_has_no_name_left_that_its_end_could_leave(labs):
    of_lab = processes.of_lab(labs(2)._engines.lab_id)
    assert len(of_lab) > 2 and mpi_files.held_by(process.pid for process in of_lab) == set()


DIES = """
import os, sys, time
from mpi4py.MPI import COMM_WORLD as world
world.Barrier()
time.sleep(5)  # who waits for mpiexec looks now and then what it has made
if world.rank == 1:
    os.kill(os.getpid(), 9) if sys.argv[1] == "killed" else os._exit(3)
world.Barrier()
"""


def test_hydra_writes_no_file_of_which_nobody_could_say_whose_it_is(labs):
    """In /tmp, for ranks to read; whenever Hydra was killed, it stayed there."""
    of_lab = processes.of_lab(labs(2)._engines.lab_id)
    found = [process for process in of_lab if process.name() == "hydra_pmi_proxy"]
    assert found and not any(Path(process.environ()["HWLOC_XMLFILE"]).exists() for process in found)


@pytest.mark.ranks
@pytest.mark.parametrize("how", ["killed", "left"])
def test_a_script_whose_rank_dies_leaves_none(how, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    command = [sys.executable, "-m", "labkit.commands", "run", "-n", "2", str(script), how]
    done = with_shared_memory("1g", "sh", "-c", '"$@" >&2 && echo it ended well; ls /dev/shm', "sh", *command)
    assert done.stdout == "", done.stderr


@pytest.fixture
def shared_memory():
    """Makes files in shared memory; they are gone afterwards."""
    made = []

    def make(name: str) -> Path:
        made.append(Path("/dev/shm", name + secrets.token_hex(4)))
        made[-1].write_bytes(bytes(4096))
        return made[-1]

    yield make
    for file in made:
        file.unlink(missing_ok=True)


def test_who_ends_ranks_that_have_not_met_removes_theirs_and_nobody_elses(shared_memory):
    theirs, of_others = shared_memory("mpich_shm_"), shared_memory("mpich_shm_")
    of_the_user = shared_memory("table")
    lab_id = secrets.token_hex(4)
    ranks = [
        psutil.Popen(
            [sys.executable, "-c", HOLD, file],
            env=os.environ | {processes.MARK: lab_id},
            stdout=subprocess.PIPE,
        )
        for file in (theirs, of_the_user)
    ]
    for rank in ranks:
        rank.stdout.readline()
    processes.end_lab(lab_id)
    for rank in ranks:
        rank.stdout.close()
    assert not theirs.exists() and of_others.exists() and of_the_user.exists()


def test_what_the_dead_have_left_is_removed_and_nothing_that_is_older_or_in_use(shared_memory):
    older = shared_memory("mpich_shm_")
    since = older.stat().st_mtime + 0.01
    time.sleep(0.05)
    left, held, of_the_user = (shared_memory(name) for name in ("mpich_shm_", "mpich_shm_", "table"))
    with subprocess.Popen([sys.executable, "-c", HOLD, held], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        found = mpi_files.orphans(since)
        holder.kill()
    assert left in found and not {older, held, of_the_user} & found
    assert held in mpi_files.orphans(since), "who held it has ended"


MAKES = """
import ctypes, mmap, os, pathlib, signal, sys, time

made = []
prctl = ctypes.CDLL(None).prctl
def make():
    with open(f"/dev/shm/mpich_shm_{sys.argv[1]}{os.getpid()}_{len(made)}", "w+b") as file:
        file.truncate(4096)
        made.append(mmap.mmap(file.fileno(), 4096))

print("ready", flush=True)
for _ in range(300):
    if sys.argv[2] == "by itself":
        make()
    elif not os.fork():
        prctl(1, signal.SIGKILL)  # ends it with its parent, as the fork server's ranks end
        make()
        time.sleep(60)
    time.sleep(0.001)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is looked up in /proc, only Linux has")
@pytest.mark.parametrize("how", ["by itself", "in children"])
def test_what_is_made_while_a_lab_is_ended_goes_too(how):
    for grace in (0.0, 1.0):
        lab_id, name = secrets.token_hex(4), secrets.token_hex(4)
        command = [sys.executable, "-c", MAKES, name, how]
        environment = os.environ | {processes.MARK: lab_id}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as maker:
            maker.stdout.readline()
            processes.end_lab(lab_id, grace)
        left = sorted(path.name for path in Path("/dev/shm").glob(f"mpich_shm_{name}*"))
        for file in left:
            Path("/dev/shm", file).unlink()
        assert not left and not processes.of_lab(lab_id)


START = """
from labkit import launch
from labkit.launch.engines import Engines
from labkit.launch import living, processes
import psutil

Engines.start(launch.plan(2), living.identity(psutil.Process())).stop()
"""


def test_too_little_of_it_is_told_before_anything_starts():
    begin = time.monotonic()
    done = with_shared_memory("2m", sys.executable, "-c", START)
    found = r"of shared memory \(/dev/shm\) 2 MB are free, and \d+ MB for 2 ranks are wanted"
    assert re.search(found, done.stderr)
    assert "--shm-size" in done.stderr and time.monotonic() - begin < 60
