"""A notebook has one lab: `start` gives it back, resized if asked, and with clean namespaces."""

import pytest

import labkit
from labkit import LabError
from labkit.lab import remote
from labkit.launch import processes
from tests.waiting import NO_HURRY, until

pytestmark = pytest.mark.ranks


def test_start_returns_the_running_lab_and_resizes_it(ask, monkeypatch):
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    lab = labkit.start(2)
    try:
        lab[:]["x"] = 1
        pids = [r.pid for r in lab.ranks]
        assert labkit.start(2) is lab and [r.pid for r in lab.ranks] == pids
        assert ask(lab[0], "'x' in globals()") is False
        old = lab._engines.lab_id
        assert labkit.start(1) is lab and len(lab) == 1
        assert until(lambda: not processes.of_lab(old))
        with pytest.raises(LabError):
            lab.restart(ranks=0)
        assert lab[0]["rank"] == 0, "a bad request loses nothing"
    finally:
        lab.stop()
    assert [row[-1] for row in lab.status()] == ["stopped"]
    with pytest.raises(LabError, match="this lab is stopped"):
        lab[0]
    lab.stop()
