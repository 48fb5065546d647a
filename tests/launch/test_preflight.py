"""A host that differs from this one is refused, with the difference and the fix. Whole: tests/hosts."""

from pathlib import Path

import pytest

from labkit.launch.hosts.ssh import Answer
from labkit.launch.preflight import trouble

MPICH = "HYDRA build details:\n    Version:           5.0.2\n"
HERE = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "mpi_says": MPICH,
    "labkit": True,
    "token": "t",
    "directory": True,
    "running_ranks": 0,
}


def ask(wanted=2, **differs):
    return trouble(Answer("b", HERE | differs), HERE, Path("/shared"), slots=4, wanted=wanted)


def test_a_host_that_is_the_same_is_taken():
    assert ask() == ("", "")
    assert ask(running_ranks=2) == ("", "")


@pytest.mark.parametrize(
    "differs, found",
    [
        ({"python": "3.10.4"}, "Python is 3.10.4 there and 3.11.7 here"),
        ({"torch": "2.12.1"}, "torch is 2.12.1 there and 2.13.0 here"),
        ({"torch": ""}, "torch is missing there and 2.13.0 here"),
        ({"mpi_says": MPICH.replace("5.0.2", "4.3.1")}, "MPI is mpich 4.3.1 there and mpich 5.0.2 here"),
        ({"mpi_says": "Frobnicator"}, "MPI is missing there and mpich 5.0.2 here"),
        ({"labkit": False}, "no labkit"),
        ({"token": ""}, "does not see the files of /shared"),
        ({"directory": False}, "no directory"),
        ({"running_ranks": 3}, "2 of its 4 slots are wanted, and 3 ranks"),
    ],
)
def test_a_difference_is_named_with_the_fix(differs, found):
    said, fix = ask(**differs)
    assert found in said and ("on b" in fix or "give b more slots" in fix)


def test_a_host_without_an_answer_says_why():
    answer = Answer("b", None, "it sleeps", "wake b")
    assert trouble(answer, HERE, Path("/shared"), 4, 2) == ("it sleeps", "wake b")
