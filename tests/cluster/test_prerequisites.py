"""A missing prerequisite is one sentence that says what is needed, what was found, and the fix."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local.prerequisites import (
    Machine,
    lacks_disk,
    lacks_platform,
    lacks_python,
    lacks_venv,
    this_machine,
)

SCRIPT = Path(__file__).parents[2] / "cluster" / "local" / "prerequisites.py"
LINUX = Machine("Linux", "x86_64", 64, (2, 36), ())
MAC = Machine("Darwin", "arm64", 64, (), (14, 5))


def run(*arguments, python=sys.executable, **environment):
    command, env = [python, SCRIPT, *arguments], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


def assert_one_sentence(lack, *parts):
    assert "\n" not in lack.strip() and "; " in lack, "what is wrong, then the fix"
    for part in parts:
        assert part in lack


def test_this_machine_lacks_nothing(tmp_path):
    assert run(tmp_path / "venv", "mpich").returncode == 0
    assert lacks_platform(this_machine(), "mpich") is None


def test_supported_machines():
    for machine in (LINUX, LINUX._replace(machine="aarch64"), MAC, MAC._replace(macos=(26, 1))):
        assert lacks_platform(machine, "mpich") is None


@pytest.mark.parametrize(
    "machine, mpi, found, fix",
    [
        (Machine("Windows", "amd64", 64, (), ()), "mpich", "Windows", "WSL 2"),
        (LINUX._replace(glibc=(2, 17)), "mpich", "glibc 2.17", "newer distribution"),
        (LINUX._replace(glibc=()), "mpich", "another C library", "newer distribution"),
        (LINUX._replace(machine="ppc64le"), "mpich", "ppc64le", "such a machine"),
        (LINUX._replace(bits=32), "mpich", "32-bit", "PYTHON="),
        (LINUX._replace(machine="aarch64"), "impi", "x86_64 only", "MPI=mpich"),
        (MAC, "impi", "Linux on x86_64 only", "MPI=mpich"),
        (MAC._replace(machine="x86_64"), "mpich", "x86_64", "Linux machine"),
        (MAC._replace(macos=(13, 6)), "mpich", "macOS 13.6", "Linux machine"),
    ],
)
def test_other_machines(machine, mpi, found, fix):
    assert_one_sentence(lacks_platform(machine, mpi), found, fix)


@pytest.mark.parametrize("found", [(2, 7), (3, 9), (3, 15)])
def test_python_too_old_or_too_new(found):
    assert_one_sentence(lacks_python(found, "python3", []), "3.10 to 3.14", "{}.{}".format(*found), "PYTHON=")
    assert lacks_python(found, "python3", ["python3.12"]).endswith("make install PYTHON=python3.12")


@pytest.mark.parametrize("minor", [10, 11, 12, 13, 14])
def test_supported_pythons(minor):
    assert lacks_python((3, minor), "python3", []) is None


def other_pythons():
    """Pythons on this machine that labkit does not support, by real path, for they must read the script."""
    names = ["python2", "python2.7", *(f"python3.{minor}" for minor in (6, 7, 8, 9, 15, 16))]
    installed = Path.home().glob(".pyenv/versions/*/bin/python")
    for candidate in [*installed, *filter(None, map(shutil.which, names))]:
        asked = subprocess.run(
            [candidate, "-c", "import sys; print((3, 10) <= sys.version_info[:2] <= (3, 14))"],
            capture_output=True,
            text=True,
        )
        if asked.stdout.strip() == "False":
            yield str(candidate)


@pytest.mark.slow  # each is started
def test_pythons_that_are_not_supported_say_so():
    others = list(other_pythons())
    if not others:
        pytest.skip("no unsupported Python on this machine to try")
    for python in others:
        asked = run("venv", "mpich", python=python)
        assert asked.returncode == 1 and not asked.stdout
        assert_one_sentence(asked.stderr, "Python 3.10 to 3.14", python)


def test_a_python_without_venv(tmp_path):
    """Debian's python3 without python3-venv has no ensurepip."""
    (tmp_path / "ensurepip.py").write_text("raise ModuleNotFoundError('not packaged', name='ensurepip')")
    asked = run(
        tmp_path / "venv", "mpich", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    )
    assert asked.returncode == 1
    assert_one_sentence(asked.stderr, "no module ensurepip", "apt-get install python3", "PYTHON=")
    assert lacks_venv("python3") is None


def test_too_little_disk(tmp_path):
    venv = str(tmp_path / "not yet made" / "venv")
    assert_one_sentence(lacks_disk(venv, 10**18), "1000000000.0 GB", venv, "VENV=")
    assert lacks_disk(venv, 0) is None


def test_a_full_disk(tmp_path):
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        asked = run(tmp_path / "venv", "mpich")
        assert asked.returncode == 1
        assert_one_sentence(asked.stderr, "needs 2.0 GB", "0.0 GB are free", str(tmp_path))
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / "pyvenv.cfg").touch()
        assert run(tmp_path / "made", "mpich").returncode == 0, "what is there needs no more room"
    finally:
        subprocess.run(["umount", tmp_path], check=True)
