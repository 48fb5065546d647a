"""labkit with the newest PyTorch that pip gives here: a lab, the backend, programs of others, and lessons."""

import os
import subprocess

import pytest

from tests.environments import ROOT, pytest_in
from tests.lessons import FIRST, NOTEBOOKS

BY_DAY = "not slow and not nightly"
torches = pytest.mark.torches
pytestmark = pytest.mark.timeout(1500)  # the first waits for the installation


@torches
def test_a_lab(newest_torch, tmp_path):
    command = [newest_torch, ROOT / "tests" / "pythons" / "a_lab.py"]
    environment = os.environ | {"PATH": f"{newest_torch.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr


@torches
def test_the_backend(newest_torch):
    """The table at one world size, as ranks agree, and what labkit leans on in torch."""
    table = "tests/mpi/test_table.py", "tests/mpi/test_torch_internals.py"
    chosen = "3-checked or internals"
    pytest_in(newest_torch, *table, "-m", "not nightly", "-k", chosen)


@torches
def test_programs_of_others(newest_torch):
    pytest_in(newest_torch, "tests/programs", "-m", BY_DAY)


@torches
def test_the_first_lessons_as_they_are_stored(newest_torch):
    pytest_in(newest_torch, "--nbval", "--nbval-cell-timeout=120", *FIRST)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_all_lessons_as_they_are_stored(newest_torch):
    lessons = sorted(NOTEBOOKS.glob("*.ipynb"))
    pytest_in(newest_torch, "--nbval", "--nbval-cell-timeout=120", *lessons, seconds=3000)
