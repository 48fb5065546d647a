"""What was asked is checked before anything starts, and the answer names the fix."""

import os
import stat

import pytest

from labkit import LabError, launch


@pytest.fixture(autouse=True)
def no_labkit_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("LABKIT_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("ranks", [0, -1, 1.5, "four", "", True, 10_000, [4]], ids=repr)
def test_bad_counts(ranks):
    with pytest.raises(LabError, match="fix:   ask for a count such as 4") as caught:
        launch.plan(ranks)
    assert str(ranks) in caught.value.asked


@pytest.mark.parametrize("option", ["backend", "launcher", "mpi", "device"])
def test_unknown_options_list_the_known(option):
    with pytest.raises(LabError, match="'warp-drive'.*\n.*\nfix:   use one of auto, "):
        launch.plan(2, **{option: "warp-drive"})


def test_counts_of_any_integer_kind():
    assert launch.plan(2).ranks == launch.plan("2").ranks == launch.plan(2.0).ranks == 2


def test_a_named_count_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("LABKIT_RANKS", "3")
    assert launch.plan(2).ranks == 2
    assert launch.plan().ranks == 3


def test_the_environment_names_the_backend(monkeypatch):
    monkeypatch.setenv("LABKIT_BACKEND", "gloo")
    assert launch.plan(2).backend == "gloo"
    monkeypatch.setenv("LABKIT_BACKEND", "carrier-pigeon")
    with pytest.raises(LabError, match="carrier-pigeon"):
        launch.plan(2)


def test_hosts_give_as_many_ranks_as_they_have_slots(monkeypatch):
    monkeypatch.setenv("LABKIT_RANKS", "3")
    monkeypatch.setenv("LABKIT_HOSTS", "a:2,b:2")
    assert launch.plan().ranks == 4
    assert launch.plan(hosts="a:1,b:1").ranks == 2, "what the caller names wins"
    assert launch.plan(3).placed() == launch.plan(hosts="a:2,b:1").placed(), "hosts are filled in their order"
    assert [host.name for host in launch.plan(2).placed()] == ["a"]


@pytest.mark.parametrize("resize", [launch.plan, lambda n: launch.resized(launch.plan(4), n)])
def test_more_ranks_than_slots_are_refused(monkeypatch, resize):
    monkeypatch.setenv("LABKIT_HOSTS", "a:2,b:2")
    with pytest.raises(LabError, match="a:2, b:2 have 4 slots\nfix:   give the hosts more slots"):
        resize(5)


def test_each_mpi_reads_its_own_kind_of_hostfile():
    placed = launch.plan(3, hosts="a:2,b:2").placed()
    hydra, openmpi = launch.MPI("mpich", "5", "mpiexec"), launch.MPI("openmpi", "5", "mpiexec")
    assert hydra.hostfile(placed) == "a:2\nb:1\n"
    assert openmpi.hostfile(placed) == "a slots=2\nb slots=1\n"


def test_equal_requests_give_equal_plans():
    assert launch.plan(3) == launch.plan(3) != launch.plan(4)
    assert launch.resized(launch.plan(3), 4) == launch.plan(4)


def test_no_mpiexec(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"no mpiexec .*\n.*pip install 'labkit\[mpich\]'"):
        launch.plan(2)


def fake_mpiexec(folder, says):
    program = folder / "bin" / "mpiexec"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(
    "says, name, version",
    [
        ("HYDRA build details:\n    Version:           5.0.2\n", "mpich", "5.0.2"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101", "impi", "2021.18"),
        ("mpiexec (Open MPI) 5.0.11", "openmpi", "5.0.11"),
        ("mpiexec (OpenRTE) 4.1.6", "openmpi", "4.1.6"),
    ],
)
def test_each_mpi_is_recognised_by_what_its_mpiexec_says(monkeypatch, tmp_path, says, name, version):
    fake_mpiexec(tmp_path, says)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    found = launch.find_mpi()
    assert (found.name, found.version) == (name, version)
    with pytest.raises(LabError, match="an environment holds one MPI"):
        launch.find_mpi("mpich" if name != "mpich" else "openmpi")


def test_an_unknown_mpiexec_is_shown(monkeypatch, tmp_path):
    fake_mpiexec(tmp_path, "Frobnicator 9000")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(LabError, match="Frobnicator 9000"):
        launch.find_mpi()


def test_the_mpi_of_this_environment():
    assert launch.find_mpi().name in ("mpich", "openmpi", "impi")


def test_the_device_that_was_asked_for_is_told_to_the_ranks(monkeypatch):
    monkeypatch.setenv("LABKIT_DEVICE", "cuda")
    assert launch.plan(1).environment()["LABKIT_DEVICE"] == "cuda"
    assert launch.plan(1, device="cpu").environment()["LABKIT_DEVICE"] == "cpu"
