"""The saved file is a Chrome trace, and gives equal events."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import LabError
from labkit.trace import COMPUTE, Event, Trace
from labkit.trace.chrome import dumps, loads

seconds, words = st.floats(0, 1e4), st.text(max_size=5)
events = st.builds(
    lambda length, **about: Event(end=about["start"] + length, **about),
    length=seconds, rank=st.integers(0, 3), verb=st.sampled_from(["send", "recv", "all_reduce", COMPUTE]),
    start=seconds, peers=st.lists(st.integers(0, 3), max_size=4).map(tuple), bytes=st.integers(0, 1 << 40),
    dtype=words, group=words, sequence=st.integers(0, 3), tag=st.integers(0, 2),
    root=st.none() | st.integers(0, 3), op=words, waiting=seconds, cpu=seconds, place=words,
    label=words,
)  # fmt: skip


@settings(max_examples=30)
@given(st.lists(events, max_size=8).map(tuple), seconds)
def test_equal_after_a_round_trip(found, error):
    assert loads(dumps(4, found, error), "it") == (4, found, error)


@settings(max_examples=30)
@given(st.lists(events, max_size=8))
def test_a_viewer_can_draw_it(found):
    """What the format demands: a phase, a time and a lane for each; slices of a lane must not overlap."""
    found = tuple(sorted(found, key=lambda e: e.start))
    whole = json.loads(dumps(4, found, 0.0))
    lanes = {}
    for entry in whole["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= set(entry) and entry["ph"] in "XMsf"
        if entry["ph"] != "M":
            assert entry["ts"] >= 0
        if entry["ph"] == "X":
            assert entry["dur"] >= 0
            lanes.setdefault((entry["pid"], entry["tid"]), []).append(entry["args"])
    for lane in lanes.values():
        assert all(a["end"] <= b["start"] for a, b in zip(lane, lane[1:], strict=False))


def test_each_message_has_an_arrow_that_goes_forward():
    sent, got = Event(0, "send", 1.0, 2.0, (1,), 8), Event(1, "recv", 1.5, 2.0, (0,), 8)
    flows = [e for e in json.loads(dumps(2, (sent, got), 0.0))["traceEvents"] if e["ph"] in "sf"]
    assert [(e["ph"], e["pid"], e["ts"]) for e in flows] == [("s", 0, 1e6), ("f", 1, 2e6)]
    assert len({e["id"] for e in flows}) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"traceEvents": []}', '{"otherData": {"format": "x"}}'])
def test_any_other_file_is_refused(tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(LabError, match="other.json"):
        Trace.load(file)


def test_a_file_that_cannot_be_written_or_read_is_told(tmp_path):
    with pytest.raises(LabError, match="nowhere(?s:.*)No such file"):
        Trace(2, ()).save(tmp_path / "nowhere" / "trace.json")
    with pytest.raises(LabError, match="nowhere(?s:.*)No such file"):
        Trace.load(tmp_path / "nowhere" / "trace.json")
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    with pytest.raises(LabError, match="picture"):
        Trace.load(tmp_path / "picture")


def saved(**of_event):
    """A file with one event in it, of which some fields are others."""
    whole = json.loads(dumps(2, (Event(0, "send", 0.0, 1.0, (1,), 8),), 0.0))
    about = whole["otherData"]
    about.update({name: of_event.pop(name) for name in [*of_event] if name in about})
    (event,) = (entry for entry in whole["traceEvents"] if entry["ph"] == "X")
    event["args"].update(of_event)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "wrong",
    [
        {"world_size": 10**9}, {"world_size": 0}, {"world_size": -1}, {"world_size": "2"},
        {"world_size": True},
        {"rank": 2}, {"rank": -1}, {"rank": "0"}, {"rank": 10**30}, {"rank": 0.5}, {"rank": None},
        {"peers": [5]},
        {"peers": [0] * 3}, {"peers": ["1"]}, {"peers": 1}, {"peers": [[1]]}, {"root": 7}, {"bytes": -1},
        {"bytes": 10**19}, {"start": float("nan")}, {"end": float("inf")}, {"end": 1e300}, {"start": "0"},
        {"verb": 3}, {"verb": ["send"]}, {"verb": "x" * 10**5}, {"place": {"a": 1}}, {"ended": "yes"},
        {"clock_error": "0"}, {"clock_error": None}, {"tag": 1.5}, {"sequence": []},
    ],
    ids=lambda wrong: str(wrong)[:40],
)  # fmt: skip
def test_a_trace_that_somebody_has_made_up_is_refused(tmp_path, wrong):
    """Before anything is drawn, counted or allotted by what it says."""
    file = tmp_path / "made_up.json"
    file.write_text(saved())
    assert Trace.load(file).bytes_sent == (8, 0)
    file.write_text(saved(**wrong))
    with pytest.raises(LabError, match="made_up.json is no trace of labkit's") as told:
        Trace.load(file)
    assert len(str(told.value)) < 600


def test_a_file_that_has_no_end_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(LabError, match="it is no file"):
            Trace.load(path)
    (tmp_path / "long").write_text(saved())
    (tmp_path / "digits").write_text("1" * 10_000)
    with pytest.raises(LabError, match="a number of 10000 digits"):
        Trace.load(tmp_path / "digits")
    monkeypatch.setattr("labkit.trace.trace.LARGEST", 10)
    with pytest.raises(LabError, match="more than 10 letters"):
        Trace.load(tmp_path / "long")
