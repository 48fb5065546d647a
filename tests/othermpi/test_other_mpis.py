"""The backend and the first lessons on Open MPI and on Intel MPI, each in an environment of its own."""

import os
import subprocess

import pytest

from tests.environments import ROOT
from tests.lessons import NOTEBOOKS

LESSONS = sorted(path for path in NOTEBOOKS.glob("0[0-4]_*.ipynb"))


def run(other_mpi, *arguments) -> None:
    """pytest with these arguments in that environment; fails as it does, or where nothing ran."""
    path = f"{other_mpi.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [other_mpi, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0 and " passed" in done.stdout


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_the_table_of_verbs(other_mpi):
    run(other_mpi, "tests/mpi/test_table.py", "-m", "not nightly and not slow")


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_the_first_lessons_as_they_are_stored(other_mpi):
    run(other_mpi, "--nbval", "--nbval-cell-timeout=120", *LESSONS)
