"""The public API is what `__all__` says, and fits on one screen."""

import subprocess
import sys
from pathlib import Path

import labkit


def test_all_names_what_is_there():
    assert sorted(labkit._HOME) == sorted(labkit.__all__) == labkit.__all__
    assert all(getattr(labkit, name).__name__ == name for name in labkit.__all__)
    assert set(dir(labkit)) == {*labkit.__all__, "__version__"}


def test_importing_labkit_is_light():
    heavy = {"torch", "ipyparallel", "IPython", "mpi4py", "matplotlib", "numpy", "psutil"}
    code = f"import sys, labkit, labkit.mpi.entry; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_is_documented():
    for name in labkit.__all__:
        assert getattr(labkit, name).__doc__, name


def test_one_screen():
    assert len(Path(labkit.__file__).read_text().splitlines()) <= 50
