"""A Slurm cluster of two nodes in this machine, for the tests of this folder."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Up for the session; SLURM_CONF names it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a Slurm cluster in one machine needs root on Linux")
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge")
    folder = tmp_path_factory.mktemp("slurm") / "c"
    subprocess.run([ROOT / "cluster/slurm/up", folder], check=True, timeout=60)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    yield folder
    del os.environ["SLURM_CONF"]
    subprocess.run([ROOT / "cluster/slurm/down", folder], check=True, timeout=60)


@pytest.fixture
def jobs(cluster):
    """`jobs()` lists the names of all jobs; there are none at the start and at the end of a test."""

    def jobs() -> list[str]:
        command = ["squeue", "--noheader", "--format=%j"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()

    assert jobs() == []
    yield jobs
    deadline = time.monotonic() + 60
    while jobs() and time.monotonic() < deadline:  # Slurm itself completes a job after its srun has ended
        time.sleep(0.2)
    left = jobs()
    deadline = time.monotonic() + 20
    while jobs() and time.monotonic() < deadline:  # one test's fault must not be the next one's
        subprocess.run(["scancel", "--me"], timeout=20)
        time.sleep(0.5)
    assert left == []
