"""Lesson 24 passes on two hosts; where there are none it is one lesson among others (`make test`)."""

import os
import subprocess
import sys

import pytest

from tests.lessons import NOTEBOOKS, lesson

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(400)]


def test_it_passes_on_two_hosts(box):
    nbval = ["-m", "pytest", "-q", "--nbval", "--nbval-cell-timeout=120", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *nbval, lesson("24")],
        cwd=NOTEBOOKS.parent,
        env=os.environ | {"LABKIT_HOSTS": "miriad2a:2,miriad2b:2"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-5000:]
    box.wait_until_empty(30)
