"""Ranks hear while they run a cell, each on its own."""

import concurrent.futures
import signal
import time

import pytest

from labkit.lab.diagnosis import State
from labkit.lab.remote import ask_states

CELL = """
import time
try:
    time.sleep(100)
except KeyboardInterrupt:
    pass
"""


def sleeps(state: State) -> bool:
    return "sleep" in state.place


def test_only_the_ranks_that_are_meant_are_interrupted(labs):
    lab = labs(3)
    first, second, third = (lab[rank].execute(CELL, block=False) for rank in range(3))
    deadline = time.monotonic() + 10
    while sum(map(sleeps, ask_states(lab, [0, 1, 2]).values())) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lab.interrupt([0, 2])
    first.get(10), third.get(10)
    assert not second.done()
    lab.interrupt([1])
    second.get(10)


class OtherTimeoutError(Exception):
    """What futures raise before Python 3.11: no builtin TimeoutError."""


@pytest.mark.parametrize("error", [TimeoutError, OtherTimeoutError])
def test_where_not_all_answer_nothing_is_told(labs, monkeypatch, error):
    monkeypatch.setattr(concurrent.futures._base, "TimeoutError", error)
    lab = labs(2)
    process = lab.ranks[1].process()
    process.send_signal(signal.SIGSTOP)
    try:
        assert ask_states(lab, [0, 1], timeout=0.3) == {} == ask_states(lab, [])
        assert ask_states(lab, [0], timeout=10.0).keys() == {0}
    finally:
        process.send_signal(signal.SIGCONT)
    assert ask_states(lab, [0, 1], timeout=10.0).keys() == {0, 1}
