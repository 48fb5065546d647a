"""The keeper is small: a lab has one all its life, and it must be there before anything else is."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("program", ["keeper", "hosts.watchdog", "spare_maker"])
def test_what_only_watches_imports_nothing_heavy(program):
    code = f"import sys, labkit.launch.{program}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert "psutil" in loaded and not {"torch", "numpy", "ipyparallel", "mpi4py"} & set(loaded)
