"""A script runs where a lab's ranks would, and nothing of it outlives the command."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from labkit import LabError, launch
from labkit.commands import run
from labkit.commands.__main__ import main
from labkit.launch import Plan, processes
from labkit.launch.hosts.ports import free_port

pytestmark = pytest.mark.ranks
SCRIPT = """
import os, sys
from mpi4py.MPI import COMM_WORLD as world
line = f"rank {world.rank} of {world.size}: {sys.argv[1:]} {os.environ['MASTER_ADDR']}\\n"
os.write(1, line.encode())  # in one piece, whatever the other ranks print
sys.exit(7 if "seven" in sys.argv else 0)
"""


@pytest.fixture
def script(tmp_path):
    """A script that says who it is."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


def test_a_script_gets_its_ranks_and_its_arguments(script, capfd):
    assert main(["run", "--ranks", "2", str(script), "--ranks", "9"]) == 0
    said = sorted(capfd.readouterr().out.splitlines())
    assert said == [f"rank {rank} of 2: ['--ranks', '9'] 127.0.0.1" for rank in range(2)]


def test_a_module_is_run_as_python_runs_one(script, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", str(script.parent))
    assert main(["run", "-n", "2", "-m", "script", "-m", "seven"]) == 7
    said = sorted(capfd.readouterr().out.splitlines())
    assert {f"rank {rank} of 2: ['-m', 'seven'] 127.0.0.1" for rank in range(2)} <= set(said)


def test_the_exit_code_is_the_script_s(script, monkeypatch, capfd):
    monkeypatch.setenv("LABKIT_RANKS", "1")
    assert main(["run", str(script), "seven"]) == 7
    assert "rank 0 of 1: ['seven']" in capfd.readouterr().out


def test_no_such_script(capsys):
    assert main(["run", "none.py"]) == 1
    assert "asked: ranks that run none.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    "sign",
    [
        signal.SIGKILL,
        *(pytest.param(sign, marks=pytest.mark.slow) for sign in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_nothing_outlives_the_command(sign, tmp_path):
    script = tmp_path / "sleeps.py"
    script.write_text("import os, time; os.write(1, b'up\\n'); time.sleep(600)")
    command = [sys.executable, "-m", "labkit.commands", "run", "-n", "2", str(script)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert [running.stdout.readline() for _ in range(2)] == ["up\n"] * 2
        ranks = [
            p for p in psutil.Process(running.pid).children(recursive=True) if str(script) in p.cmdline()
        ]
        assert len(ranks) >= 2
        labs = {p.environ()[processes.MARK] for p in ranks}
    finally:
        os.kill(running.pid, sign)
        running.wait(30)
    deadline = time.monotonic() + 20
    while (left := [p for lab in labs for p in processes.of_lab(lab)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == [] and not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in ranks)


def test_where_ranks_meet(monkeypatch):
    plan = Plan(2, launch.find_mpi())
    monkeypatch.delenv("MASTER_PORT", raising=False)
    assert run.meeting_point(plan)["MASTER_ADDR"] == "127.0.0.1"
    assert "MASTER_ADDR" not in run.meeting_point(Plan(2, plan.mpi, launcher="slurm"))  # known on the nodes
    port = str(free_port())
    monkeypatch.setenv("MASTER_PORT", port)
    assert "MASTER_PORT" not in run.meeting_point(plan)


def test_a_notebook_is_no_script(tmp_path):
    (tmp_path / "lesson.ipynb").touch()
    with pytest.raises(LabError, match="a notebook is no script(?s:.*)labkit export"):
        run.main([str(tmp_path / "lesson.ipynb")])
