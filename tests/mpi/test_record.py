"""From when on a rank is said to have waited for an operation that it had posted."""

import subprocess
import sys
import time

import pytest

from labkit.mpi.call import Call
from labkit.mpi.record import record
from labkit.mpi.wire.waiting import wait_until

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
    monkeypatch.setattr(record, "looks", [(1000, 500)])
    monkeypatch.setattr(record, "clock", lambda: 1000 + int(later))
    monkeypatch.setattr(record, "_read", lambda: 500 + int(busy))
    call = Call("barrier", "0", (0,))
    call.start = call.posted = 1000
    record.wait(call)
    assert call.waited == (1000 if waits_from == "start" else 1000 + later)


def test_the_core_is_looked_at_seldom_and_its_time_is_known_of_every_moment(monkeypatch):
    monkeypatch.setattr(record, "looks", [])
    monkeypatch.setattr(record, "records", [])
    monkeypatch.setattr(record, "_due", 0)
    used = iter([7_000, 8_000])
    monkeypatch.setattr(record, "_read", lambda: next(used))
    now = 10 * record.LOOK_EVERY
    moments = iter([now, now + 300, now + record.LOOK_EVERY, now + record.LOOK_EVERY + 200])
    monkeypatch.setattr(record, "clock", lambda: next(moments))
    first, second = (_finished(record) for _ in range(2))
    times = [record.cpu(moment) for moment in (first.start, first.end, second.start, second.end)]
    assert times == [7_000, 7_300, 8_000, 8_200], "two looks; since each of them on the core"


def test_a_long_wait_is_known_from_what_is_computed_after_it(monkeypatch):
    monkeypatch.setattr(record, "records", [])
    call = Call("barrier", "0", (0,))
    record.look(record.clock())
    record.begin(call, at_once=True)
    there = time.monotonic() + 0.2
    assert wait_until(lambda: time.monotonic() > there, 10, call)
    end = record.clock()
    while record.clock() < end + 200 * MS:
        pass
    record.look(record.clock())
    assert record.cpu(end) - record.cpu(call.start) < 100 * MS


def _finished(record):
    call = Call("barrier", "0", (0,))
    record.begin(call)
    record.finish(call)
    return call


def test_a_forked_rank_reads_its_own_processor_time():
    """The fork server has imported this; the thread that it imported it in is not there in a rank."""
    code = "import os\nfrom labkit.mpi.record import record\nif os.fork() == 0:\n    record.start()\nelse:\n"
    code += "    raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
