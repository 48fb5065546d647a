"""A running cell is drawn where somebody watches, and becomes its own result."""

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.diagnosis import COMPUTING, FINISHED, WAITING, State
from labkit.lab.display import live
from labkit.lab.display.said import Said


@pytest.fixture(autouse=True)
def session(shell):
    """IPython displays nothing where there is no session."""


SAID = (Said(0, "one\ntwo\n", done=False), Said(1, "done\n"))
STATES = (State(0, WAITING, "recv", (1,), place="line 3: dist.recv(x)"), State(1, FINISHED))


def drawn(watched, look_at=2.0):
    with capture_output() as captured:
        shown = live.Live(watched)
        shown.look(SAID, STATES, look_at)
        shown.finish(SAID)
    return [output.data["text/plain"] for output in captured.outputs]


def test_nobody_watches_so_there_is_the_result_alone():
    assert drawn(False) == ["[rank 0] one\n         two\n[rank 1] done"]


def test_a_short_cell_does_not_flicker():
    assert len(drawn(True, look_at=0.1)) == 1


def test_a_long_cell_shows_what_is_said_and_done():
    first = drawn(True)[0]
    assert "[rank 0] two" in first and "-- 2 s --" in first
    assert "rank 0 waits in recv from rank 1, line 3: dist.recv(x)" in first and "rank 1 finished" in first


@pytest.mark.parametrize(
    "variable, value, watched", [("LABKIT_LIVE", "1", True), ("LABKIT_LIVE", "0", False)]
)
def test_the_environment_overrules(monkeypatch, variable, value, watched):
    monkeypatch.setenv(variable, value)
    assert live.somebody_watches() is watched


def test_a_computing_rank_is_shown_with_its_line():
    assert live.describe(State(0, COMPUTING, place="line 1: x = f()")) == "computing, line 1: x = f()"
