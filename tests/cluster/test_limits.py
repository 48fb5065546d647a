"""What one learner may take: by control groups, or by looking."""

import os
import subprocess
import sys

import psutil
import pytest

from cluster.hub import limits
from cluster.hub.limits import Limits
from tests.waiting import until

MB = 2**20
EATS = "x = bytearray(b'1' * {size}); print('eaten', flush=True); input()"


def eater(size: int) -> subprocess.Popen:
    """A process that has so many bytes."""
    command = [sys.executable, "-c", EATS.format(size=size)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "eaten\n"
    return process


@pytest.fixture
def two():
    """A small process and a large one."""
    found = [eater(MB), eater(200 * MB)]
    yield found
    for process in found:
        process.kill()
        process.communicate()


def test_memory_is_what_processes_take(two):
    small, large = (sum(limits.memory(limits.tree(process.pid)).values()) for process in two)
    assert 200 * MB < large < 300 * MB and large - small > 190 * MB


def test_too_much_ends_the_largest_alone(two):
    used = limits.memory([psutil.Process(process.pid) for process in two])
    assert limits.end_largest(used, 2**40) is None
    assert limits.end_largest(used, 100 * MB).pid == two[1].pid
    assert until(lambda: two[1].poll() is not None) and two[0].poll() is None


def test_a_process_that_has_ended_takes_nothing():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(ended.pid)
    ended.wait()
    assert sum(limits.memory([process]).values()) == 0 and limits.tree(ended.pid) == []


def test_a_group_is_told_its_limits_in_the_words_of_its_version():
    asked = Limits(2 * 2**30, 1.5, 100)
    assert asked.as_files(is_unified=True) == {
        "memory.max": "2147483648",
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
        "pids.max": "100",
    }
    assert asked.as_files(is_unified=False) == {
        "memory.limit_in_bytes": "2147483648",
        "cpu.cfs_quota_us": "150000",
        "pids.max": "100",
    }
    assert Limits().as_files(is_unified=True) == {}


def test_a_group_holds_what_joins_it_to_its_memory():
    if os.geteuid() != 0 or not limits.can_group():
        pytest.skip("control groups cannot be made here: needs root, and a tree that may be written")
    group = limits.Group(f"test-{os.getpid()}", Limits(memory=100 * MB, processes=50))
    try:
        command = [sys.executable, "-c", "x = bytearray(b'1' * 400 * 2**20)"]
        assert subprocess.run(command, preexec_fn=group.join, timeout=60).returncode == -9
        assert subprocess.run(command, timeout=60).returncode == 0
    finally:
        assert until(group.remove)
