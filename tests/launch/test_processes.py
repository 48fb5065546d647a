"""A process is known by its pid and its start, whatever the clock of the wall says."""

import os
import subprocess
import sys

import psutil
import pytest

from labkit.launch import processes


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def test_it_is_found_again_and_is_gone_when_it_has_ended(sleeper):
    identity = processes.identity(psutil.Process(sleeper.pid))
    assert processes.is_alive(processes.parse(identity))
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has reaped it
    assert not processes.is_alive(processes.parse(identity)), "a zombie is not alive"
    sleeper.wait()
    assert processes.parse(identity) is None


def test_another_process_of_that_pid_is_another(sleeper):
    pid, started = processes.identity(psutil.Process(sleeper.pid)).split()
    assert processes.parse(f"{pid} {float(started) - 100}") is None


@pytest.mark.skipif(sys.platform != "linux", reason="there the system keeps the start as the wall's time")
def test_who_sets_the_clock_changes_nothing(sleeper, monkeypatch):
    identity = processes.identity(psutil.Process(sleeper.pid))
    booted = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted + 1)
    assert processes.is_alive(processes.parse(identity))


def test_a_process_that_is_gone_has_no_start():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(ended.pid)
    ended.wait()
    with pytest.raises(psutil.NoSuchProcess):
        processes.started(process)
