"""Every fault in the facts is found by its name, and no other; some of them refuse a start."""

from dataclasses import replace
from pathlib import Path

import pytest

from labkit.launch.hosts.names import Host
from labkit.launch.hosts.ssh import Answer
from labkit.launch.preflight import judge
from labkit.launch.preflight.ask import Here
from labkit.launch.preflight.judge import Check

HEALTHY = {
    "hostname": "a", "user": "ada", "python": "3.11.7", "torch": "2.13.0", "labkit": True,
    "mpi_says": "HYDRA build details:\n    Version:           5.0.2\n", "token": "seen", "clock": 0.0,
    "directory": True, "free_shared_memory": 8 * 10**9,
    "cores": 8, "free_memory": 16 * 10**9, "running_ranks": 0, "gpus": [], "nccl": "",
    "sees_us_at": "10.0.0.1",
}  # fmt: skip
HERE = Here(HEALTHY, Path("/shared"), "/home/ada/lessons")
HOST = Host("b", slots=2)


def faults(found) -> list[str]:
    return [check.fault for check in found if check.fault]


def refusals(found) -> list[str]:
    return [check.refusal for check in found if check.refusal]


def test_a_healthy_host_has_no_fault():
    found = list(judge.of_host(HOST, Answer("b", dict(HEALTHY)), HERE))
    assert faults(found) == refusals(found) == [] and {check.host for check in found} == {"b"}


SAME = "make the same environment on b as here"
MPICH_4 = "HYDRA build details:\n    Version:           4.3.2\n"
OTHER_FACTS = [  # the fault, the facts behind it, why a start is refused, and the fix
    ("other user", {"user": "bob"}, "", "write `User ada` for b in ssh's configuration"),
    ("other MPI", {"mpi_says": MPICH_4}, "MPI is mpich 4.3.2 there and mpich 5.0.2 here", SAME),
    ("other MPI", {"mpi_says": "mpiexec (Open MPI) 5.0.11"},
     "MPI is openmpi 5.0.11 there and mpich 5.0.2 here", SAME),
    ("other MPI", {"mpi_says": "Frobnicator"}, "MPI is missing there and mpich 5.0.2 here", SAME),
    ("other MPI", {"mpi_says": ""}, "MPI is missing there and mpich 5.0.2 here", SAME),
    ("other torch", {"torch": "2.12.0"}, "torch is 2.12.0 there and 2.13.0 here", SAME),
    ("other torch", {"torch": ""}, "torch is missing there and 2.13.0 here", SAME),
    ("other Python", {"python": "3.12.1"}, "Python is 3.12.1 there and 3.11.7 here", SAME),
    ("no labkit", {"labkit": False}, "there is no labkit in ", SAME),
    ("folder not shared", {"token": ""}, "it does not see the files of /shared", "mount your home on b"),
    ("no directory", {"directory": False}, "it has no directory /home/ada/lessons", "mount it on b"),
    ("no free slot", {"running_ranks": 2},
     "1 of its 2 slots are wanted, and 2 ranks of labs run there", "give b more slots"),
    ("little memory", {"free_memory": 10**8}, "", "end other programs"),
    ("little shared memory", {"free_shared_memory": 10**6},
     "of shared memory (/dev/shm) 1 MB are free, and 2 MB for 1 ranks are wanted", "--shm-size"),
    ("GPUs without NCCL, or other NCCL", {"nccl": "2.27.3"}, "", "with torch for CUDA on b"),
]  # fmt: skip


@pytest.mark.parametrize(
    "fault, told, refusal, fix", OTHER_FACTS, ids=[f"{f} {t}" for f, t, _, _ in OTHER_FACTS]
)
def test_a_fault_in_the_facts_is_found_and_no_other(fault, told, refusal, fix):
    found = list(judge.of_host(HOST, Answer("b", HEALTHY | told), HERE))
    assert faults(found) == [fault]
    [broken] = [check for check in found if check.fault]
    assert broken.found and broken.wanted and "b" in str(broken)
    assert refusal in broken.refusal and bool(refusal) == bool(broken.refusal) and fix in broken.fix


@pytest.mark.parametrize("running, wanted, expected", [
    (2, 2, []),
    (3, 1, []),
    (3, 2, ["2 of its 4 slots are wanted, and 3 ranks of labs run there"]),
    (9, 1, ["1 of its 4 slots are wanted, and 9 ranks of labs run there"]),
])  # fmt: skip
def test_ranks_take_the_slots_that_are_free(running, wanted, expected):
    answer = Answer("b", HEALTHY | {"running_ranks": running})
    assert refusals(judge.of_host(Host("b", slots=4), answer, HERE, wanted)) == expected


@pytest.mark.parametrize("offset, expected", [(60.0, ["clock off"]), (-60.0, ["clock off"]), (0.5, [])])
def test_clocks(offset, expected):
    answer = Answer("b", dict(HEALTHY), clock_offset=offset)
    assert faults(judge.of_host(HOST, answer, HERE)) == expected


def test_a_host_without_an_answer_says_why():
    [check] = judge.of_host(HOST, Answer("b", None, "host down", "it sleeps", "wake b"), HERE)
    assert (check.fault, check.found, check.refusal, check.fix) == (
        "host down", "it sleeps", "it sleeps", "wake b"
    )  # fmt: skip


def test_a_blocked_port_names_both_ends():
    found = list(judge.of_ports({("a", "b"): "timed out", ("b", "a"): ""}))
    assert faults(found) == ["port blocked"]
    assert "open the ports above 1023 of b to a" in str(found[0])


WORLD = "Hello, World! I am process 0 of 2 on a.\nHello, World! I am process 1 of 2 on a.\n"


@pytest.mark.parametrize("told, world, found", [
    ({}, WORLD, []),
    ({"python": "3.9.2"}, WORLD, ["Python of the wrong version"]),
    ({"torch": "1.0"}, WORLD, ["torch of the wrong version"]),
    ({"torch": "2.13.0+cpu"}, WORLD, []),
    ({"mpi_says": ""}, "", ["no MPI", "no world of ranks"]),
    ({}, "Hello, World! I am process 0 of 1 on a.\n" * 2, ["no world of ranks"]),
    ({"free_memory": 10**8}, WORLD, ["little memory"]),
    ({"free_shared_memory": 5 * 10**6}, WORLD, ["little shared memory"]),
    ({"gpus": ["NVIDIA H100"]}, WORLD, ["GPUs without NCCL, or other NCCL"]),
])  # fmt: skip
def test_faults_of_one_machine(told, world, found):
    assert faults(judge.of_this_machine(HEALTHY | told, world)) == found


def test_every_line_says_found_and_wanted():
    good = Check("b", "torch", "2.13.0", "2.13.0, as here")
    assert str(good) == "ok    b: torch: found 2.13.0; wanted 2.13.0, as here"
    bad = replace(good, found="none", fault="other torch", fix="pip install torch")
    assert str(bad) == "FAULT b: other torch: found none; wanted 2.13.0, as here; fix: pip install torch"
