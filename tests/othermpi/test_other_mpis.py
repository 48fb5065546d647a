"""The mpi backend on Open MPI and on Intel MPI, each in an environment of its own."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_the_table_of_verbs(other_mpi):
    path = f"{other_mpi.parent}{os.pathsep}{os.environ['PATH']}"
    table = [
        other_mpi,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/mpi/test_table.py",
        "-m",
        "not nightly",
    ]
    done = subprocess.run(
        table, cwd=ROOT, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True, timeout=800
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0 and " passed" in done.stdout
