"""From when on a rank is said to have waited for an operation that it had posted."""

import pytest

from labkit.mpi import record

MS = 1_000_000


@pytest.mark.parametrize(
    ("later", "busy", "waits_from"),
    [
        (0.1 * MS, 0.1 * MS, "start"),  # a synchronous call
        (10 * MS, 0.1 * MS, "start"),  # the same, while another program had the core
        (10 * MS, 8 * MS, "then"),  # it computed in between
        (50 * MS, 0.1 * MS, "then"),  # it slept
    ],
)
def test_who_did_nothing_since_the_start_waited_since_then(monkeypatch, later, busy, waits_from):
    operation = record.Record(None, start=1000, start_cpu=500)
    operation.posted = 1000
    monkeypatch.setattr(record, "clock", lambda: 1000 + later)
    monkeypatch.setattr(record, "cpu", lambda now: 500 + busy)
    operation.wait()
    expected = (1000, 500) if waits_from == "start" else (1000 + later, 500 + busy)
    assert (operation.waited, operation.waited_cpu) == expected


def test_the_clock_of_the_core_is_read_seldom_and_tells_what_was_read(monkeypatch):
    read = iter([7_000, 8_000, 9_000])
    monkeypatch.setattr(record, "_read", lambda: next(read))
    monkeypatch.setattr(record, "_seen", (0, 0))
    now = 10 * record.READ_EVERY
    assert record.cpu(now) == 7_000
    assert record.cpu(now + 300) == 7_300, "on a core since"
    assert record.cpu(now + record.READ_EVERY) == 8_000, "too long ago"
    assert record.cpu(now) == 9_000, "a clock that went back says nothing of since when"
