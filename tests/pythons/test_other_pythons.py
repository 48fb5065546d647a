"""labkit from a wheel, the backend and the first lessons on the other Pythons of this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.environments import ROOT, pytest_in
from tests.lessons import FIRST

pytestmark = [pytest.mark.pythons, pytest.mark.timeout(1500)]  # the first waits for the installation


def test_a_lab_from_a_wheel(other_python, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [other_python, ROOT / "tests" / "pythons" / "a_lab.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(other_python.parents[1]), "not the wheel's"


def test_the_backend(other_python):
    pytest_in(other_python, "tests/mpi", "-m", "not slow and not nightly", "-k", "3-checked or not test_case")


@pytest.mark.nightly
def test_the_first_lessons_as_they_are_stored(other_python):
    pytest_in(other_python, "--nbval", "--nbval-cell-timeout=120", *FIRST)
