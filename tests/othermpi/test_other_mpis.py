"""The backend and the first lessons on Open MPI and on Intel MPI, each in an environment of its own."""

import pytest

from tests.environments import pytest_in
from tests.lessons import FIRST


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_the_table_of_verbs(other_mpi):
    pytest_in(other_mpi, "tests/mpi/test_table.py", "-m", "not nightly and not slow")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_first_lessons_as_they_are_stored(other_mpi):
    pytest_in(other_mpi, "--nbval", "--nbval-cell-timeout=120", *FIRST)
