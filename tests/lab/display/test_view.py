"""The tiles say what each rank does; as text they are the same from run to run."""

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.diagnosis import COMPUTING, RAISED, WAITING, State
from labkit.lab.display import view
from labkit.lab.display.said import Said
from labkit.lab.display.view import Tile
from labkit.lab.px import PxMagics
from tests.waiting import lasting, until


def test_text_says_who_waits_for_whom():
    tiles = (
        Tile(0, "here", "waiting", "recv from rank 1", "line 3: dist.recv(x)", 1_000_000),
        Tile(1, "here", "computing", place="line 1: work()"),
    )
    assert view.text(tiles).splitlines() == [
        "rank  state      waits for or computes",
        "0     waiting    recv from rank 1, line 3: dist.recv(x)",
        "1     computing  line 1: work()",
    ]


def test_what_is_not_told_stays():
    before = Tile(0, "here", memory=7)
    after = view.tile(before, State(0, RAISED, error="ValueError: bad"))
    assert (after.host, after.memory, after.state, after.what) == ("here", 7, RAISED, "ValueError: bad")
    assert view.tile(before, State(0, WAITING, "recv", (1,), memory=9)).memory == 9


def test_memory_is_not_a_move():
    """Or a rank whose memory changes while it waits would never be called stuck."""
    assert State(0, WAITING, "recv", (1,), memory=1) == State(0, WAITING, "recv", (1,), memory=2)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_running_cell_is_seen_and_then_rest(labs, shell, n, monkeypatch, tmp_path):
    lab, end = labs(n), tmp_path / "end"
    monkeypatch.setattr(lab, "tiles", None)  # the labs are shared with other tests
    shown, seen = lab.view(), []
    assert lab.view() is shown and [t.state for t in shown.tiles] == ["ready"] * n
    until(lambda: shown.rest() or all(t.memory for t in shown.tiles))  # not known of a rank that is late
    assert all(t.memory > 1e7 and t.host for t in shown.tiles)

    def look(*now):
        view.View.look(shown, *now)
        states = [t.state for t in shown.tiles]
        if states == [COMPUTING] + [WAITING] * (n - 1) and shown.tiles[0].said:
            seen.append(shown.tiles)
            end.touch()

    monkeypatch.setattr(shown, "look", look)
    with capture_output():
        code = f"print('here')\nif rank == 0: exec({lasting(end)!r})\ndist.barrier()"
        PxMagics(shell, lab).cell_px("--deadline 60", code)
    tiles = seen[0]
    assert tiles[1].what.startswith("barrier") and tiles[1].place == "line 4: dist.barrier()"
    assert tiles[0].said == "here" and all(t.memory > 1e7 for t in tiles)
    assert [t.state for t in shown.tiles] == ["ready"] * n


@pytest.mark.slow
@pytest.mark.ranks
def test_a_stopped_lab_is_seen(shell):
    from labkit import launch
    from labkit.lab.lab import Lab

    lab = Lab(launch.plan(1))
    shown = lab.view()
    lab.stop()
    assert [t.state for t in shown.tiles] == ["stopped"]
    assert [t.state for t in lab.restart(ranks=2).view().tiles] == ["ready"] * 2
    lab.stop()


def test_where_nobody_watches_there_is_text_alone_and_the_same_every_time(labs, monkeypatch):
    lab = labs(2)
    monkeypatch.setenv("LABKIT_LIVE", "0")
    monkeypatch.setattr(lab, "tiles", None)
    assert lab.view()._repr_mimebundle_() == {
        "text/plain": "rank  state  waits for or computes\n0     ready\n1     ready"
    }
    assert lab.view()._widget is None, "a widget that exists has state, which may be stored"


def test_where_somebody_watches_there_is_a_widget_beside_the_text(labs, monkeypatch):
    lab = labs(2)
    monkeypatch.setenv("LABKIT_LIVE", "1")
    monkeypatch.setattr(lab, "tiles", None)
    bundle, _ = lab.view()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
    lab.view().look((Said(0, "a\nb\n"),), (State(0, WAITING, "recv", (1,)),), 3.0)
    widget = lab.view()._widget
    assert widget.headline == "a cell has run for 3 s"
    assert [(t["what"], t["said"]) for t in widget.tiles] == [("recv from rank 1", "b")]
