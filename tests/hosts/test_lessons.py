"""The lessons over two hosts, unchanged: stored outputs are compared as on one host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = ("00", "01", "02", "03", "04", "08", "10")
ROOT = Path(__file__).parents[2]
LESSONS = sorted(p for p in ROOT.joinpath("notebooks").glob("*_*.ipynb") if p.name[:2] in HERE)


def compare(python, lessons):
    """Run lessons on miriad2a and miriad2b, and compare what is stored."""
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
def test_with_the_mpi_of_this_environment(box):
    assert len(LESSONS) == len(HERE)
    compare(sys.executable, LESSONS)
    box.wait_until_empty(30)


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_with_another_mpi(box, other_mpi):
    compare(other_mpi, [lesson for lesson in LESSONS if lesson.name[:2] in ("01", "04")])
    box.wait_until_empty(30)
