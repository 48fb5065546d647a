"""What a process has run is measured even if it is killed, and writing loses nothing of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import coverage
import pytest

from tests.measured import _write

pytestmark = pytest.mark.nightly  # it tests what tests

ROOT = Path(__file__).parent.parent
FUNCTIONS = 3000
SETTINGS = """
[run]
parallel = true
plugins = tests.measured
patch = subprocess, fork
data_file = {folder}/data
"""


@pytest.fixture
def measured(tmp_path):
    """Starts a program, measured; `lines()` says which of its lines have been found to run."""
    program, settings = tmp_path / "program.py", tmp_path / "settings"
    settings.write_text(SETTINGS.format(folder=tmp_path))
    started = []

    def start(source):
        program.write_text(source)
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", str(program)]
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        process = subprocess.Popen(
            command, env=env | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    def lines():
        whole = coverage.CoverageData(str(tmp_path / "whole"))
        for file in tmp_path.glob("data.*"):
            part = coverage.CoverageData(str(file))
            part.read()
            whole.update(part)
        return set(whole.lines(str(program)) or ())

    yield start, lines
    for process in started:
        process.kill()
        process.wait(10)


def test_lines_that_run_once_in_a_busy_process_are_all_found(measured):
    start, lines = measured
    once = [f"def f{n}(): sum(range(50_000))\nf{n}()" for n in range(FUNCTIONS)]
    assert start("\n".join(once)).wait(120) == 0
    assert lines() == set(range(1, 2 * FUNCTIONS + 1))


def test_a_process_that_waits_and_is_killed_has_written(measured):
    start, lines = measured
    process = start("import time\nx = 1\nprint('here', flush=True)\ntime.sleep(600)\nx = 2\n")
    assert process.stdout.readline() == "here\n"
    deadline = time.monotonic() + 30
    while lines() != {1, 2, 3, 4} and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert lines() == {1, 2, 3, 4}


def test_a_forked_process_that_waits_and_is_killed_has_written(measured):
    """What it calls, that is: the frame that forked is not seen any more."""
    start, lines = measured
    process = start(
        "import os, time\ndef wait():\n    x = 1\n    time.sleep(600)\n    x = 2\n"
        "if child := os.fork():\n    print(child, flush=True)\n    os.wait()\nelse:\n    wait()\n"
    )
    child = int(process.stdout.readline())
    deadline = time.monotonic() + 30
    while not lines() >= {3, 4} and time.monotonic() < deadline:
        time.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    assert process.wait(10) == 0
    assert lines() == {1, 2, 3, 4, 6, 7, 8}


def test_who_finds_the_data_locked_does_not_wait_for_ever(monkeypatch, tmp_path):
    measuring = coverage.Coverage(data_file=str(tmp_path / "data"), config_file=False)
    with measuring.collect():
        pass
    monkeypatch.setattr(coverage.Coverage, "current", lambda: measuring)
    measuring._collector.lock_data()
    writing = threading.Thread(target=_write, daemon=True)
    writing.start()
    writing.join(10)
    assert not writing.is_alive()
