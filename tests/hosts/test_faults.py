"""What goes wrong between hosts: each ends in time with a LabError that names the host and the fix."""

import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

import pytest
import torch

from labkit import LabError, launch
from labkit.lab.lab import Lab
from labkit.launch import runtime
from labkit.launch.hosts import ports, ssh
from tests.faults.test_faults import run

pytestmark = pytest.mark.hosts
SECONDS = 60.0
"""Until the verdict, on a machine that does other work; what ssh and TCP wait by themselves is minutes."""


@pytest.fixture(autouse=True)
def folder_of_labs(monkeypatch, tmp_path):
    """A folder in which no other lab of this user comes and goes."""
    monkeypatch.setattr(runtime, "RUNTIME", tmp_path / "labs")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The host that is well, and late, is found to be well."""
    monkeypatch.setattr(ssh, "PROBE_DEADLINE", 50.0)
    monkeypatch.setattr(ports, "DEADLINE", 50.0)


def refusal(box, hosts="miriad2a:1,miriad2b:1") -> LabError:
    """Start a lab that cannot start; the error comes in time, and nothing is left on any host."""
    before, start = sorted(runtime.RUNTIME.glob("*")), time.monotonic()
    with pytest.raises(LabError) as caught:
        Lab(launch.plan(hosts=hosts)).stop()
    assert time.monotonic() - start < SECONDS
    box.wait_until_empty(30)
    assert sorted(runtime.RUNTIME.glob("*")) == before
    return caught.value


@pytest.fixture
def covered(box):
    """`covered(host, path, source)` shows `source`, or an empty folder, in place of a path on a host."""
    done = []

    def cover(host, path, source=None):
        what = ["--bind", source] if source else ["-t", "tmpfs", "tmpfs"]
        box.inside(host, "mount", *what, path)
        done.append((host, path))

    yield cover
    for host, path in reversed(done):
        box.inside(host, "umount", path)


def test_a_host_that_nobody_knows(box):
    error = refusal(box, "miriad2a:1,nowhere.invalid:1")
    assert "nowhere.invalid: nobody knows a host of that name" in error.found
    assert "mend the name" in error.fix


def test_no_ssh_server(box):
    box.inside("miriad2b", "pkill", "-f", "sshd.*listener")
    try:
        error = refusal(box)
    finally:
        config = box.state / "miriad2b.sshd_config"
        subprocess.Popen(
            [
                "nsenter",
                "--all",
                "--target",
                str(box.first_process("miriad2b")),
                "/usr/sbin/sshd",
                "-f",
                config,
            ]
        ).wait(60)
    assert "miriad2b: it is there, and no ssh server listens" in error.found
    assert error.fix == "start sshd on miriad2b"


def test_a_host_that_does_not_answer(box):
    box.link("miriad2b", "down")
    try:
        error = refusal(box)
    finally:
        box.link("miriad2b", "up")
    assert "miriad2b: it cannot be reached" in error.found and "start miriad2b" in error.fix


def test_a_wrong_key(box, tmp_path, monkeypatch):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    config = (box.state / "ssh_config").read_text()
    first, second = config.split("\n\n")
    wrong = second.replace(str(box.state / "user_key"), str(tmp_path / "other"))
    (tmp_path / "ssh_config").write_text(f"{first}\n\n{wrong}")
    monkeypatch.setenv("LABKIT_SSH_CONFIG", str(tmp_path / "ssh_config"))
    error = refusal(box)
    assert error.found.startswith("miriad2b: it takes none of your keys")
    assert error.fix.startswith("ssh-copy-id miriad2b")


def test_another_torch(box, covered, tmp_path):
    told = Path(metadata.distribution("torch").locate_file(f"torch-{torch.__version__}.dist-info/METADATA"))
    other = tmp_path / "METADATA"
    other.write_text(told.read_text().replace(f"Version: {torch.__version__}", "Version: 2.12.1"))
    covered("miriad2b", told, other)
    error = refusal(box)
    assert error.found == f"miriad2b: torch is 2.12.1 there and {torch.__version__} here"
    assert error.fix == "make the same environment on miriad2b as here"


def test_another_mpi(box, covered, tmp_path):
    ours = launch.find_mpi()
    other = tmp_path / "mpiexec"
    other.write_text("#!/bin/sh\necho 'mpiexec (Open MPI) 4.1.4'\n")
    other.chmod(0o755)
    covered("miriad2b", ours.mpiexec, other)
    error = refusal(box)
    assert error.found == f"miriad2b: MPI is openmpi 4.1.4 there and {ours.name} {ours.version} here"
    assert "miriad2b" in error.fix


def test_no_environment(box, covered):
    covered("miriad2a", sys.prefix)
    error = refusal(box)
    assert error.found.startswith(f"miriad2a: {sys.executable} is not there")
    assert error.fix == "make the same environment on miriad2a"


def test_no_shared_folder(box, covered):
    runtime.RUNTIME.mkdir(parents=True, exist_ok=True)
    covered("miriad2b", runtime.RUNTIME)
    error = refusal(box)
    assert error.found == f"miriad2b: it does not see the files of {runtime.RUNTIME}"
    assert "miriad2b" in error.fix


def test_no_free_slot(box, pair):
    lab = pair()
    start = time.monotonic()
    with pytest.raises(LabError) as caught:
        Lab(launch.plan(hosts="miriad2b:1"))
    assert time.monotonic() - start < SECONDS
    assert "miriad2b: 1 of its 1 slots are wanted, and 1 ranks of labs run there" in caught.value.found
    assert "give miriad2b more slots" in caught.value.fix
    assert [s.words() for s in run(lab, "rank").said] == ["0", "1"], "the other lab goes on"


def test_the_link_goes_down_in_the_middle_of_a_cell(box, pair):
    lab = pair()
    lost = []

    def cut():
        lost.append(time.monotonic())
        box.link("miriad2b", "down")

    timer = threading.Timer(0.7, cut)
    timer.start()
    try:
        with pytest.raises(LabError) as caught:
            run(lab, "while True:\n    dist.all_reduce(torch.ones(1000))")
        assert time.monotonic() - lost[0] < SECONDS
        box.wait_until_empty(SECONDS)  # also on the host that nobody can reach
    finally:
        timer.join()
        box.link("miriad2b", "up")
    assert "host miriad2b cannot be reached any more" in caught.value.found
    assert "lab.restart()" in caught.value.fix
    lab.restart()
    assert [s.words() for s in run(lab, "x = torch.ones(1)\ndist.all_reduce(x)\nint(x)").said] == ["2", "2"]
