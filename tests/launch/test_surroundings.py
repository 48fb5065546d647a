"""Whatever the machine refuses, or the environment claims, a start ends in ranks or in a sentence."""

import os
import shutil
import subprocess
import sys

import pytest

from labkit import LabError, launch
from labkit.launch import find_mpi, runtime
from labkit.launch.engines import Engines

START = "from labkit import launch; from labkit.lab.lab import Lab; Lab(launch.plan(1))"
CLAIMS = {
    "a host file": {"HYDRA_HOST_FILE": "/nowhere/at/all"},
    "Slurm": {"SLURM_JOB_ID": "5", "SLURM_NODELIST": "a,b", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "a,b"},
}


@pytest.mark.ranks
@pytest.mark.parametrize("claim", CLAIMS)
def test_ranks_of_this_machine_start_here_whatever_the_environment_claims(claim):
    if find_mpi().name != "mpich":
        pytest.skip("these variables are for Hydra")
    command = [*launch.plan(1).command("job"), "-n", "1", "hostname"]
    environment = os.environ | CLAIMS[claim]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == os.uname().nodename, done.stderr


def test_a_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(runtime, "RUNTIME", tmp_path / "file" / "labkit")
    with pytest.raises(LabError, match="the system says: (?s:.*)JUPYTER_RUNTIME_DIR"):
        Engines.prepare(launch.plan(1), "1 1.0")


@pytest.mark.skipif(not shutil.which("unshare") or os.getuid(), reason="needs a network of its own")
def test_a_machine_without_ipv4_loopback_is_told():
    alone = ["unshare", "-n", sys.executable, "-c", START]
    script = 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$@"'
    command = [*alone[:2], "sh", "-c", script, "sh", *alone[2:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "this machine has no IPv4 loopback" in done.stderr
