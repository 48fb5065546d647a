"""The arithmetic of the benchmark's report, on numbers made up for it."""

import json

import pytest

from tests.bench.collectives import document
from tests.bench.figure import draw, finding
from tests.bench.machine import circumstances, describe
from tests.bench.plan import calls, plan
from tests.bench.report import collect, table
from tests.bench.worker import turns


def launch(gloo, raw, mpi, checked):
    seconds = {"gloo": gloo, "raw": raw, "mpi": mpi, "checked": checked}
    return [{"verb": "all_reduce", "bytes": 2**20, "seconds": seconds}]


LAUNCHES = [launch(8.0, 1.0, 1.0, 2.0), launch(80.0, 2.0, 4.0, 4.0), launch(30.0, 3.0, 3.0, 9.0)]


def test_a_ratio_is_the_median_of_the_ratios_within_each_launch():
    (row,) = collect(LAUNCHES)
    assert row.ratio("gloo", "mpi") == 10.0  # of 8, 20 and 10; the ratio of the medians would be 10 too
    assert row.ratio("mpi", "raw") == 1.0
    assert row.ratio("checked", "mpi") == 2.0
    assert row.spread("gloo", "mpi") == (8.0, 20.0)


def test_the_table_has_a_line_for_each_row():
    text = table(collect(LAUNCHES)).splitlines()
    assert len(text) == 2
    assert text[1].split()[:3] == ["all_reduce", "1", "MB"]
    assert "10.00" in text[1]


def test_the_title_of_the_figure_is_computed():
    assert finding(collect(LAUNCHES), 2) == "mpi is 10.0 to 10.0 times as fast as gloo: all_reduce, 2 ranks"


def test_the_figure_is_written(tmp_path):
    draw(collect(LAUNCHES), 2, tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_the_document_says_on_what_machine_and_not_whose():
    import platform

    text = json.dumps(document(collect(LAUNCHES), 2, 3, {}, circumstances()))
    assert describe()["versions"]["torch"] in text
    assert platform.node() not in text


@pytest.mark.parametrize("quick", [True, False])
def test_a_plan_covers_every_verb_and_a_hundred_megabytes_only_for_all_reduce(quick):
    rows = plan(quick).rows
    assert len({verb for verb, _ in rows}) == 10
    assert all(nbytes <= 16 * 2**20 or verb == "all_reduce" for verb, nbytes in rows)
    assert all(calls(nbytes) >= 1 for _, nbytes in rows)


def test_everyone_takes_every_turn():
    names = ("a", "b", "c")
    assert {turns(names, i)[0] for i in range(3)} == set(names)
