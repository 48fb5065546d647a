"""`python -m tests.bench collectives --hosts` measures on the hosts, and says so."""

import json

import pytest

from tests.bench.__main__ import main
from tests.bench.launch import ROOT

pytestmark = pytest.mark.nightly


def test_collectives_are_measured_between_hosts(box, tmp_path, capsys):
    found = tmp_path / "found.json"
    verbs = ("--verbs", "gather,flat ring", "--quick", "--json", str(found))
    assert main(["collectives", "--hosts", "miriad2a:2,miriad2b:2", *verbs]) == 0
    assert capsys.readouterr().out.startswith("4 ranks on 2 hosts, 1 launches")
    rows = json.loads(found.read_text())["rows"]
    measured = {row["verb"]: set(row["seconds"]) for row in rows}
    assert measured["gather"] == {"gloo", "raw", "mpi", "checked"}
    assert measured["flat ring"] == {"gloo", "ring", "mpi", "checked"}
    assert not list(ROOT.glob("labkit-bench-*"))
