"""`python -m tests.bench simulate`: each simulation is timed, and counted by its messages."""

import pytest

from tests.bench.simulation import cases, table


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_every_simulation_is_measured(measured):
    document, printed = measured("simulate", "--rounds", "1")
    assert table(document) in printed
    assert [(row["title"], row["messages"]) for row in document["rows"]] == [
        (case.title, case.messages) for case in cases()
    ]
    by_simpy, by_recurrence = (row["seconds"][0] for row in document["rows"][-2:])
    assert document["recurrence_speedup"] == pytest.approx(by_simpy / by_recurrence)
