"""A process is known by its pid and its start, whatever the clock of the wall says."""

import os
import subprocess
import sys

import psutil
import pytest

from labkit.launch import living


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def test_it_is_found_again_and_is_gone_when_it_has_ended(sleeper):
    identity = living.identity(psutil.Process(sleeper.pid))
    assert living.is_alive(living.parse(identity))
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has reaped it
    assert not living.is_alive(living.parse(identity)), "a zombie is not alive"
    sleeper.wait()
    assert living.parse(identity) is None


def test_what_it_does_is_told_from_beginning_to_end(sleeper):
    process = psutil.Process(sleeper.pid)
    identity = living.identity(process)
    pid, started = identity.split()
    assert living.told(identity) == psutil.STATUS_RUNNING
    assert living.told(f"{pid} {float(started) - 100}") == psutil.STATUS_DEAD, "another of that pid"
    process.suspend()
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert living.told(identity) == psutil.STATUS_STOPPED
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert living.told(identity) == psutil.STATUS_DEAD, "a zombie is not alive"
    sleeper.wait()
    assert living.told(identity) == living.told("") == psutil.STATUS_DEAD


def test_another_process_of_that_pid_is_another(sleeper):
    pid, started = living.identity(psutil.Process(sleeper.pid)).split()
    assert living.parse(f"{pid} {float(started) - 100}") is None


@pytest.mark.skipif(sys.platform != "linux", reason="there the system keeps the start as the wall's time")
def test_who_sets_the_clock_changes_nothing(sleeper, monkeypatch):
    identity = living.identity(psutil.Process(sleeper.pid))
    booted = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted + 1)
    assert living.is_alive(living.parse(identity))


def test_a_process_that_is_gone_has_no_start():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(ended.pid)
    ended.wait()
    with pytest.raises(psutil.NoSuchProcess):
        living.started(process)
