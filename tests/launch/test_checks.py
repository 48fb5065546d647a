"""Every fault in the facts is found by its name, and no other."""

from dataclasses import replace

import pytest

from labkit.launch import preflight
from labkit.launch.hosts.names import Host
from labkit.launch.hosts.ssh import Answer
from labkit.launch.preflight import Check

HEALTHY = {
    "hostname": "a", "user": "ada", "python": "3.11.7", "torch": "2.13.0", "labkit": True,
    "mpi_says": "HYDRA build details:\n    Version:           5.0.2\n", "token": "seen", "clock": 0.0,
    "cores": 8, "free_memory": 16 * 10**9, "running_ranks": 0, "gpus": [], "nccl": "",
    "sees_us_at": "10.0.0.1",
}  # fmt: skip
HOST = Host("b", slots=2)


def faults(found) -> list[str]:
    return [check.fault for check in found if check.fault]


def test_a_healthy_host_has_no_fault():
    found = list(preflight.of_host(HOST, Answer("b", dict(HEALTHY)), HEALTHY))
    assert faults(found) == [] and {check.host for check in found} == {"b"}


OTHER_FACTS = [
    ("other user", {"user": "bob"}),
    ("other MPI", {"mpi_says": "HYDRA build details:\n    Version:           4.3.2\n"}),
    ("other MPI", {"mpi_says": "mpiexec (Open MPI) 5.0.11"}),
    ("other MPI", {"mpi_says": ""}),
    ("other torch", {"torch": "2.12.0"}),
    ("other torch", {"torch": ""}),
    ("other Python", {"python": "3.12.1"}),
    ("folder not shared", {"token": ""}),
    ("no free slot", {"running_ranks": 2}),
    ("little memory", {"free_memory": 10**8}),
    ("GPUs without NCCL, or other NCCL", {"nccl": "2.27.3"}),
]


@pytest.mark.parametrize("fault, told", OTHER_FACTS, ids=[f"{f} {t}" for f, t in OTHER_FACTS])
def test_a_fault_in_the_facts_is_found_and_no_other(fault, told):
    found = list(preflight.of_host(HOST, Answer("b", HEALTHY | told), HEALTHY))
    assert faults(found) == [fault]
    [broken] = [check for check in found if check.fault]
    assert broken.found and broken.wanted and "b" in str(broken) and broken.fix


@pytest.mark.parametrize("offset, expected", [(60.0, ["clock off"]), (-60.0, ["clock off"]), (0.5, [])])
def test_clocks(offset, expected):
    answer = Answer("b", dict(HEALTHY), clock_offset=offset)
    assert faults(preflight.of_host(HOST, answer, HEALTHY)) == expected


@pytest.mark.parametrize("said, fault", [
    ("ssh: Could not resolve hostname b: Name or service not known", "host unknown"),
    ("ssh: connect to host b port 22: Connection refused", "host down"),
    ("ssh: connect to host b port 22: Connection timed out", "host down"),
    ("ssh: connect to host b port 22: No route to host", "host down"),
    ("no answer within 8 s", "host down"),
    ("ada@b: Permission denied (publickey).", "wrong key"),
    ("ada@b: Permission denied (publickey,password).", "password asked"),
    ("ada@b: Permission denied (keyboard-interactive).", "password asked"),
    ("Host key verification failed.", "other host key"),
    ("/env/bin/python is not there (sh: /env/bin/python: No such file)", "other Python"),
    ("something else", "no ssh"),
])  # fmt: skip
def test_what_ssh_says_has_a_name(said, fault):
    [check] = preflight.of_host(HOST, Answer("b", None, said, "the fix"), HEALTHY)
    assert (check.fault, check.fix) == (fault, "the fix")


def test_a_blocked_port_names_both_ends():
    found = list(preflight.of_ports({("a", "b"): "timed out", ("b", "a"): ""}))
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
    ({"gpus": ["NVIDIA H100"]}, WORLD, ["GPUs without NCCL, or other NCCL"]),
])  # fmt: skip
def test_faults_of_one_machine(told, world, found):
    assert faults(preflight.alone(HEALTHY | told, world)) == found


def test_every_line_says_found_and_wanted():
    good = Check("b", "torch", "2.13.0", "2.13.0, as here")
    assert str(good) == "ok    b: torch: found 2.13.0; wanted 2.13.0, as here"
    bad = replace(good, found="none", fault="other torch", fix="pip install torch")
    assert str(bad) == "FAULT b: other torch: found none; wanted 2.13.0, as here; fix: pip install torch"
