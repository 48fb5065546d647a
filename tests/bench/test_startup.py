"""`python -m tests.bench ready`: each row of the table is a ratio of what both took in the same round."""

import pytest

from tests.bench.startup import ROWS, table


@pytest.mark.nightly
@pytest.mark.ranks
def test_starts_restarts_and_cells_are_measured(measured):
    document, printed = measured("ready", "--ranks", "2", "--rounds", "1")
    assert table(document) in printed
    found = {row["title"]: row for row in document["rows"]}
    assert found.keys() >= {title for title, ours, _ in ROWS if ours != "spare"}
    for row in found.values():
        assert row["ratio"] == pytest.approx(row["labkit"][0] / row["plain"][0]) and row["plain"][0] > 0
