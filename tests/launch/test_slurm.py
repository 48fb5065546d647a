"""What labkit asks of srun, and what it reads from it; tests/slurm has the real thing."""

import pytest

from labkit import LabError, launch
from labkit.launch import slurm


@pytest.fixture(autouse=True)
def outside_an_allocation(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv(slurm.WAIT, raising=False)


def test_a_job_of_its_own_waits_for_a_minute(monkeypatch):
    command = slurm.command("mpich", "auto", slurm.job("ab12"))
    assert command[0] == "srun" and "--job-name=labkit-ab12" in command and "--immediate=60" in command
    assert "--overlap" not in command and "--gpus-per-task=1" not in command
    monkeypatch.setenv(slurm.WAIT, "5")
    assert "--immediate=5" in slurm.command("mpich", "auto", "j")


def test_in_an_allocation_ranks_share_what_is_there(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert {"--overlap", "--overcommit"} <= set(slurm.command("mpich", "auto", "j"))


def test_each_rank_on_cuda_gets_a_gpu():
    assert "--gpus-per-task=1" in slurm.command("mpich", "cuda", "j")


@pytest.mark.parametrize("asked", ["soon", "0", "-1", "1.5"])
def test_a_wait_is_a_whole_number_of_seconds(asked, monkeypatch):
    monkeypatch.setenv(slurm.WAIT, asked)
    with pytest.raises(LabError, match=f"fix:   {slurm.WAIT}=60"):
        slurm.wait()


@pytest.mark.parametrize("log, found", [
    ("srun: error: vm: task 2: Killed\nsrun: error: vm: tasks 0-1: Terminated\n", (2, "Killed")),
    ("srun: error: n1: task 11: Exited with exit code 3\n", (11, "Exited with exit code 3")),
    ("all is well\n", (-1, "")),
])  # fmt: skip
def test_who_died_first(log, found):
    assert slurm.died_first(log) == found


@pytest.mark.parametrize("log, fix", [
    ("srun: error: Unable to allocate resources: Requested nodes are busy", "see `squeue`"),
    ("srun: error: Immediate execution impossible. Insufficient resources.", "see `squeue`"),
    ("srun: error: Unable to allocate resources: Invalid partition name specified", "ask for what `sinfo`"),
])  # fmt: skip
def test_why_there_are_no_nodes(log, fix):
    found, said = slurm.why_no_nodes(log)
    assert found and said.startswith(fix)


def test_a_log_of_ranks_says_nothing_about_nodes():
    assert slurm.why_no_nodes("Traceback: No module named torch\nsrun: error: vm: task 0: Exited") == ("", "")


def test_where_there_is_no_slurm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="found: no srun on PATH"):
        slurm.require("mpich")


def test_another_mpi_is_refused(monkeypatch):
    monkeypatch.setattr(slurm.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(LabError, match="use an environment with MPICH"):
        slurm.require("openmpi")


def test_slurm_chooses_the_hosts_itself():
    with pytest.raises(LabError, match="Slurm itself chooses the nodes"):
        launch.plan(2, hosts="a:2", launcher="slurm")
