"""The lessons over two hosts, unchanged: stored outputs are compared as on one host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lessons import lesson

BY_DAY = ("01", "04", "10")
HERE = ("00", *BY_DAY, "02", "03", "08")
ROOT = Path(__file__).parents[2]


def compare(python, numbers):
    """Run lessons on miriad2a and miriad2b, and compare what is stored."""
    lessons = [lesson(number) for number in numbers]
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    nbval = ["-m", "pytest", "-q", "--nbval", "--nbval-cell-timeout=120", "-p", "no:cacheprovider", *lessons]
    done = subprocess.run(
        [python, *nbval],
        cwd=ROOT,
        env=os.environ | {"LABKIT_HOSTS": "miriad2a:2,miriad2b:2", "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-5000:]
    print(done.stdout.strip().splitlines()[-1])


@pytest.mark.hosts
@pytest.mark.timeout(620)
@pytest.mark.parametrize(
    "numbers", [pytest.param(BY_DAY, id="some"), pytest.param(HERE, id="all", marks=pytest.mark.nightly)]
)
def test_with_the_mpi_of_this_environment(box, numbers):
    compare(sys.executable, numbers)
    box.wait_until_empty(30)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_with_another_mpi(box, other_mpi):
    compare(other_mpi, ("01", "04"))
    box.wait_until_empty(30)
