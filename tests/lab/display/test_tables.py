"""Aligned text."""

from labkit.lab.display.tables import aligned


def test_columns_begin_below_each_other_and_lines_have_no_end_of_blanks():
    assert aligned([("rank", "state", ""), (0, "ready", ""), (10, "", "x")]).splitlines() == [
        "rank  state",
        "0     ready",
        "10           x",
    ]
