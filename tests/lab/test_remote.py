"""A call ends in time whatever the ranks do; they hear while they run a cell, each on its own."""

import concurrent.futures
import signal
import threading
import time

import pytest

from labkit import LabError
from labkit.lab import compare, remote
from labkit.lab.diagnosis import State
from labkit.lab.remote import ask_states
from labkit.launch import living
from tests.waiting import WITHIN, lasting, until, until_ranks

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
    until_ranks(lab, sleeps)
    lab.interrupt([0, 2])
    first.get(WITHIN), third.get(WITHIN)
    assert not second.done()
    lab.interrupt([1])
    second.get(WITHIN)


class OtherTimeoutError(Exception):
    """What futures raise before Python 3.11: no builtin TimeoutError."""


@pytest.mark.parametrize("error", [TimeoutError, OtherTimeoutError])
def test_where_not_all_answer_nothing_is_told(labs, monkeypatch, error):
    monkeypatch.setattr(concurrent.futures._base, "TimeoutError", error)
    lab = labs(2)
    process = lab.ranks[1].process()
    process.send_signal(signal.SIGSTOP)
    try:
        assert until(lambda: living.is_stopped(process))
        assert ask_states(lab, [0, 1], timeout=0.3) == {} == ask_states(lab, [])
        assert ask_states(lab, [0], timeout=WITHIN).keys() == {0}
    finally:
        process.send_signal(signal.SIGCONT)
    assert ask_states(lab, [0, 1], timeout=WITHIN).keys() == {0, 1}


CALLS = {
    "recover": lambda lab: lab.recover(),
    "network": lambda lab: lab.network(),
    "compare": lambda lab: lab.compare("rank"),
    "trace": lambda lab: lab.trace().__enter__(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_busy_rank_is_told_and_nothing_is_lost(labs, ask, monkeypatch, tmp_path, name):
    lab, end = labs(2), tmp_path / "end"
    monkeypatch.setattr(remote, "CALL_DEADLINE", 0.3)
    monkeypatch.setattr(compare, "DEADLINE", 0.3)
    busy = lab[1].execute(lasting(end), block=False)
    with pytest.raises(LabError, match=r"ranks? .*1 did not answer within 0.3 s"):
        CALLS[name](lab)
    end.touch()
    busy.get(WITHIN)
    assert ask(lab[:], "x.item()", "x = torch.ones(1); dist.all_reduce(x)") == [2.0] * 2


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "recover")) for name in CALLS]
)
def test_a_rank_that_dies_under_a_call_is_told_at_once(labs, monkeypatch, name):
    """And not only when the call has not been answered for so long that it is given up."""
    monkeypatch.setattr(remote, "CALL_DEADLINE", 2 * WITHIN)
    monkeypatch.setattr(compare, "DEADLINE", 2 * WITHIN)
    lab, killed = labs(2), []
    lab[1].execute("import time; time.sleep(100)", block=False)

    def kill():
        killed.append(time.monotonic())
        lab.ranks[1].process().kill()

    threading.Timer(0.5, kill).start()
    with pytest.raises(LabError, match=r"rank 1 .* died: .*[Kk]illed"):
        CALLS[name](lab)
    assert time.monotonic() - killed[0] < WITHIN


@pytest.mark.parametrize("name", ["os.getpid", "nothing", "exercises.on_rank.torch", "rank.service.isinf"])
def test_only_what_labkit_itself_has_is_called(labs, name):
    with pytest.raises(LabError, match=f"to call {name} on a rank"):
        remote.call(labs(2), name, asked="a test")
    assert remote.call(labs(2), "rank.world.describe", asked="a test")[1]["rank"] == 1


def test_what_the_users_own_code_raises_under_a_call_is_told(labs):
    lab = labs(2)
    lab[1].execute("class C:\n    @property\n    def x(self): raise OSError('no disk')\nc = C()", block=True)
    with pytest.raises(LabError, match="to compare c.x(?s:.*)rank 1 raised OSError: no disk"):
        lab.compare("c.x")


FAILS = """
from labkit.mpi.errors import DeadlineError
from labkit.rank import service
def fails(): raise DeadlineError("the moon", "cheese", "look again")
fails.__module__ = "labkit.rank.service"
service.fails = fails
"""


def test_an_error_of_the_backend_needs_no_mpi_to_be_told(labs):
    lab = labs(2)
    lab[:].execute(FAILS, block=True)
    with pytest.raises(LabError, match="found: cheese") as caught:
        remote.call(lab, "fails", asked="a test")
    assert type(caught.value) is LabError
    assert len(remote.call(lab, "describe", asked="a test")) == 2
