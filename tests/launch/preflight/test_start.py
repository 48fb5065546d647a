"""A start on unfit hosts is refused: each with its difference and the fix. On real hosts: tests/hosts."""

import os

import pytest

from labkit import LabError, launch
from labkit.launch.hosts import facts, ssh
from labkit.launch.hosts.ssh import Answer
from labkit.launch.preflight import start

PLAN = launch.plan(3, hosts="a:2,b:2")


@pytest.fixture
def answers(monkeypatch):
    """Hosts that are this machine, but for what a test says of each by its name."""
    differ: dict[str, dict | Answer] = {}

    def probe(hosts, deadline, **asked):
        told = facts.facts(folder=str(ssh.PACKAGE), **asked) | {"running_ranks": 0, "sees_us_at": "10.0.0.1"}
        answered = [differ.get(host.name, {}) for host in hosts]
        return tuple(
            answer if isinstance(answer, Answer) else Answer(host.name, told | answer)
            for host, answer in zip(hosts, answered, strict=True)
        )

    monkeypatch.setattr(ssh, "probe", probe)
    return differ


def refusal(shared) -> LabError:
    with pytest.raises(LabError) as caught:
        start.require_hosts(PLAN, shared)
    return caught.value


def test_hosts_that_are_as_this_machine_are_taken_and_tell_our_address(answers, tmp_path):
    answers["b"] = {"running_ranks": 1, "user": "bob", "free_memory": 1}  # noted by the doctor alone
    assert start.require_hosts(PLAN, tmp_path) == "10.0.0.1"
    assert not list(tmp_path.iterdir()), "the file that hosts were shown is gone"


def test_every_unfit_host_is_named_by_its_first_difference(answers, tmp_path):
    answers["a"] = Answer("a", None, "host down", "it sleeps", "wake a")
    answers["b"] = {"python": "2.7.1", "torch": "", "token": "", "running_ranks": 9}
    error = refusal(tmp_path)
    assert error.asked == "3 ranks on a, b"
    first, second = error.found.splitlines()
    assert first == "a: it sleeps" and second.strip().startswith("b: Python is 2.7.1 there and ")
    assert error.fix == "wake a; make the same environment on b as here"


def test_a_fix_for_two_is_said_once(answers, tmp_path):
    answers |= {name: Answer(name, None, "host down", "it sleeps", "wake them") for name in "ab"}
    assert refusal(tmp_path).fix == "wake them"


def test_only_the_slots_that_get_ranks_are_wanted(answers, tmp_path):
    answers |= {"a": {"running_ranks": 1}, "b": {"running_ranks": 1}}
    assert refusal(tmp_path).found == "a: 2 of its 2 slots are wanted, and 1 ranks of labs run there"


def test_the_folder_and_the_directory_are_named(answers, tmp_path):
    answers |= {"a": {"token": ""}, "b": {"directory": False}}
    error = refusal(tmp_path)
    assert f"a: it does not see the files of {tmp_path}" in error.found
    assert f"b: it has no directory {os.getcwd()}" in error.found


def test_hosts_that_see_this_machine_at_two_addresses(answers, tmp_path):
    answers["b"] = {"sees_us_at": "10.1.0.1"}
    assert "at 10.0.0.1 and 10.1.0.1" in refusal(tmp_path).found


def test_ranks_that_the_memory_does_not_hold_are_refused(monkeypatch):
    monkeypatch.delenv(start.HUB_LIMIT, raising=False)
    start.require_memory(launch.plan(4))
    monkeypatch.setattr(facts, "free_memory", lambda: 3 * 10**8)
    start.require_memory(launch.plan(2))
    with pytest.raises(LabError, match="4 ranks\n.*this machine 0.3 GB are free, and they take 0.5 GB"):
        start.require_memory(launch.plan(4))


def test_ranks_beyond_what_a_hub_gives_its_learner_are_refused(monkeypatch):
    in_use = 64 * 10**9 - start_left(monkeypatch, 64 * 10**9)
    assert in_use > 10**7, "this process, too"
    monkeypatch.setenv(start.HUB_LIMIT, str(in_use + 3 * 10**8))
    with pytest.raises(LabError, match="16 ranks\n.*your server at the hub"):
        start.require_memory(launch.plan(16))
    monkeypatch.setenv(start.HUB_LIMIT, "unlimited")
    start.require_memory(launch.plan(16))


def start_left(monkeypatch, limit: int) -> int:
    """What a hub with that limit leaves."""
    monkeypatch.setenv(start.HUB_LIMIT, str(limit))
    return start._left_at_hub()
