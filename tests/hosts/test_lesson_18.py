"""Lesson 18 passes where it has two hosts, and where it has none; its stored outputs are the same."""

import os
import subprocess
import sys

import pytest

from tests.lessons import NOTEBOOKS, lesson

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(400)]


@pytest.mark.parametrize("hosts", ["miriad2a:2,miriad2b:2", ""], ids=["two hosts", "none"])
def test_it_passes_with_hosts_and_without(box, hosts):
    nbval = ["-m", "pytest", "-q", "--nbval", "--nbval-cell-timeout=120", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *nbval, lesson("18")],
        cwd=NOTEBOOKS.parent,
        env=os.environ | {"LABKIT_HOSTS": hosts},
        stdout=subprocess.PIPE,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-5000:]
    box.wait_until_empty(5)
