"""`python -m tests.bench ranks`: what one process does for all ranks is drawn on in a line."""

import pytest

from tests.bench.machine import circumstances
from tests.bench.ranks import COLUMNS, line, table


def test_a_line_goes_through_the_medians():
    rows = [
        {"ranks": ranks, "seconds": {column.name: [9.0, 0.5 + 0.25 * ranks, 0.0] for column in COLUMNS}}
        for ranks in (4, 8, 16)
    ]
    assert line(rows, "controller to start") == pytest.approx((0.5, 0.25))
    told = table(circumstances() | {"rounds": 3, "rows": rows}).splitlines()
    assert told[-1].split() == "notebook in a cell 500.00 ms/s 250.00 ms/s 256500.00 ms/s".split()
    assert [row.split()[:3] for row in told[-7:-4]] == [
        [str(ranks), f"{0.5 + 0.25 * ranks:.2f}", "s"] for ranks in (4, 8, 16)
    ]


@pytest.mark.nightly
@pytest.mark.ranks
def test_labs_of_several_sizes_are_measured(measured):
    document, printed = measured("ranks", "--ranks", "2,3", "--rounds", "1")
    assert table(document) in printed
    assert [row["ranks"] for row in document["rows"]] == [2, 3]
    assert all(
        row["seconds"]["verdict"][0] > 0 and row["seconds"]["ready"][0] > 0 for row in document["rows"]
    )
