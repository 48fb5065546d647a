"""A trace says where it was saved, and tells what hinders that; a notebook shows it as a page."""

import pytest

from labkit import LabError
from labkit.trace import Event, Trace

TRACE = Trace(2, (Event(0, "send", 0.0, 1.0, (1,), 8), Event(1, "recv", 0.5, 1.0, (0,), 8)))


def test_it_says_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert TRACE.save("t.json") == tmp_path / "t.json"
    assert Trace.load("t.json") == TRACE


@pytest.mark.parametrize("name", ["nowhere/t.json", "."])
def test_what_cannot_be_written_or_read_is_told(tmp_path, name):
    with pytest.raises(LabError, match="a trace saved as"):
        TRACE.save(tmp_path / name)
    with pytest.raises(LabError, match="a saved trace|Flight Recorder dumps in"):
        Trace.load(tmp_path / name)


@pytest.mark.parametrize("watched", ["0", "1"])
def test_a_plot_can_be_touched_only_where_somebody_watches(monkeypatch, watched):
    monkeypatch.setenv("LABKIT_LIVE", watched)
    told, _ = TRACE.plot("Mine")._repr_mimebundle_()
    assert ("text/html" in told) == (watched == "1")
    assert TRACE._repr_html_().startswith('<figure class="labkit-timeline"')
