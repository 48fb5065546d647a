"""`labkit bench collectives --hosts` measures on the hosts, and says so."""

import json
from pathlib import Path

import pytest

from labkit.commands.__main__ import main

pytestmark = pytest.mark.nightly


def test_collectives_are_measured_between_hosts(box, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    verbs = ("--verbs", "gather,flat ring", "--quick", "--json", "found.json")
    assert main(["bench", "collectives", "--hosts", "miriad2a:2,miriad2b:2", *verbs]) == 0
    assert capsys.readouterr().out.startswith("4 ranks on 2 hosts, 1 launches")
    rows = json.loads(Path("found.json").read_text())["rows"]
    measured = {row["verb"]: set(row["seconds"]) for row in rows}
    assert measured["gather"] == {"gloo", "raw", "mpi", "checked"}
    assert measured["flat ring"] == {"gloo", "ring", "mpi", "checked"}
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
