"""From records to a trace, with no cluster: clocks, partners, waiting, gaps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.trace import COMPUTE, Trace
from labkit.trace.merge import offset, on_rank_0
from labkit.trace.records import Moment, Offset, Operation, Place, Recording

MS = 1_000_000
STOP = 1000


def moment(ms, cpu=None):
    return Moment(int(ms * MS), int((ms if cpu is None else cpu) * MS))


def operation(verb, ranks, start, end, waited=None, **about):
    """Of a rank that its `recording` gives it."""
    waits = moment(start if waited is None else waited)
    return Operation(-1, verb, tuple(ranks), moment(start), moment(end), waited=waits, **about)


def recording(rank, *operations, spans=None, offsets=()):
    spans = ((moment(0), moment(STOP)),) if spans is None else spans
    return Recording(rank, tuple(replace(one, rank=rank) for one in operations), spans, offsets)


def communication(trace, rank=None):
    return [e for e in trace.events if e.verb != COMPUTE and rank in (None, e.rank)]


def in_ms(events):
    return [(round(1000 * e.start, 6), round(1000 * e.end, 6)) for e in events]


def test_waiting_lasts_until_the_last_has_entered():
    starts = {0: 10, 1: 40, 2: 25}
    trace = Trace.of([recording(r, operation("barrier", (0, 1, 2), s, 50)) for r, s in starts.items()], 3)
    assert {e.rank: round(1000 * e.waiting, 6) for e in communication(trace)} == {0: 30, 1: 0, 2: 15}


def test_who_leaves_early_did_not_wait():
    root, late = (
        operation("broadcast", (0, 1), 10, 11, root=0),
        operation("broadcast", (0, 1), 40, 41, root=0),
    )
    assert [e.waiting for e in communication(Trace.of([recording(0, root), recording(1, late)], 2))] == [0, 0]


def test_who_was_interrupted_waited_all_the_time():
    stuck = operation("recv", (1,), 10, 90, failed=True)
    (event,) = communication(Trace.of([recording(0, stuck), recording(1)], 2))
    assert event.waiting == pytest.approx(0.08) and not Trace.of([recording(0, stuck)], 2).messages


def test_messages_with_one_tag_do_not_overtake():
    sends = [operation("send", (1,), t, t + 1, bytes=t, tag=7) for t in (1, 3, 5)]
    recvs = [operation("recv", (0,), t, t + 1, source=0, bytes=t, tag=7) for t in (2, 4, 6)]
    trace = Trace.of([recording(0, *sends), recording(1, *recvs)], 2)
    assert [(s.bytes, r.bytes, s.sequence, r.sequence) for s, r in trace.messages] == [
        (1, 2, 1, 1), (3, 4, 2, 2), (5, 6, 3, 3),
    ]  # fmt: skip


def test_tags_and_groups_keep_messages_apart():
    sends = [operation("send", (1,), 1, 2, tag=1), operation("send", (1,), 2, 3, tag=1, group="other")]
    recvs = [
        operation("recv", (0,), 1, 3, source=0, tag=1, group="other"),
        operation("recv", (0,), 3, 4, source=0, tag=1),
        operation("recv", (0,), 4, 5, source=0, tag=2),
    ]
    trace = Trace.of([recording(0, *sends), recording(1, *recvs)], 2)
    assert [(s.group, r.group) for s, r in trace.messages] == [("", ""), ("other", "other")]


def test_a_receive_from_any_source():
    recvs = [operation("recv", (1, 2), 1, 9, source=s) for s in (2, 1)]
    sends = {r: recording(r, operation("send", (0,), 3, 8)) for r in (1, 2)}
    trace = Trace.of([recording(0, *recvs), *sends.values()], 3)
    assert [e.peers for e in communication(trace, 0)] == [(2,), (1,)] and len(trace.messages) == 2


def test_what_was_sent_before_the_trace_has_no_arrow():
    recvs = [operation("recv", (0,), t, t + 1, source=0) for t in (1, 11)]
    trace = Trace.of([recording(0, operation("send", (1,), 10, 12)), recording(1, *recvs)], 2)
    assert in_ms(pair[1] for pair in trace.messages) == [(11, 12)]


def test_a_send_that_nobody_waited_for_ends_with_its_receive():
    send = replace(operation("send", (1,), 1, STOP), ended=False, waited=None)
    trace = Trace.of([recording(0, send), recording(1, operation("recv", (0,), 2, 5, source=0))], 2)
    assert in_ms(communication(trace, 0)) == [(1, 5)]


def test_a_group_made_again_counts_anew():
    twice = [operation("barrier", (0, 1), t, t + 1, group="0", sequence=1) for t in (1, 5)]
    trace = Trace.of([recording(0, *twice), recording(1, *twice)], 2)
    assert sorted(e.sequence for e in communication(trace)) == [1, 1, 2, 2]


def test_gaps_are_compute_with_their_cpu_time():
    spans = ((moment(0), moment(100, cpu=40)),)
    mine = recording(0, operation("barrier", (0,), 10, 30), spans=spans)
    computes = [e for e in Trace.of([mine], 1).events if e.verb == COMPUTE]
    assert in_ms(computes) == [(0, 10), (30, 100)]
    assert [1000 * e.cpu for e in computes] == pytest.approx([10, 10])


def test_a_posted_operation_leaves_the_rank_free_until_it_waits():
    mine = recording(0, operation("send", (1,), 10, 80, waited=70))
    assert in_ms(e for e in Trace.of([mine], 2).events if e.verb == COMPUTE) == [(0, 70), (80, 1000)]


def test_no_cell_no_compute_around_it():
    mine = recording(0, operation("barrier", (0,), 10, 30), operation("barrier", (0,), 50, 60), spans=())
    assert in_ms(e for e in Trace.of([mine], 1).events if e.verb == COMPUTE) == [(20, 40)]


@pytest.mark.parametrize(
    "places, words",
    [
        ([Place("f()", 2, 1)], ["line 2: f()"]),
        ([Place("f()", 2, 1), Place("g()", 1, 2)], ["cell 1, line 2: f()", "cell 2, line 1: g()"]),
        ([Place("f()", 2, 0)], ["an earlier cell, line 2: f()"]),
        ([Place("f()", 2, 1, "In [9]")], ["line 2: f()"]),
        (
            [Place("f()", 2, 0, "In [5]"), Place("g()", 1, 1, "In [9]")],
            ["In [5], line 2: f()", "In [9], line 1: g()"],
        ),
        (
            [Place("dist.send(x, dst=other)", 25, None, "naive.py")],
            ["naive.py, line 25: dist.send(x, dst=other)"],
        ),
    ],
)
def test_places(places, words):
    operations = [operation("barrier", (0,), i, i + 1, place=place) for i, place in enumerate(places)]
    assert [e.place for e in communication(Trace.of([recording(0, *operations)], 1))] == words


def test_nothing_recorded():
    assert Trace.of([], 2).events == () and Trace.of([recording(0, spans=())], 1).events == ()


def test_an_offset_within_its_error_is_none():
    assert offset(1000, 1090, 1200) == Offset(1090, 0, 110)
    assert offset(1000, 5_001_100, 1200) == Offset(5_001_100, -5_000_000, 100)


@given(
    true=st.integers(-(10**9), 10**9),
    way=st.integers(0, 10**6),
    back=st.integers(0, 10**6),
)
def test_the_stated_error_bounds_the_true_one(true, way, back):
    """A clock that is `true` ahead of rank 0's; the message takes `way` to it and `back`."""
    found = offset(0, way + true, way + back)
    assert abs(found.offset + true) <= found.error


def test_a_clock_that_drifts_is_followed():
    offsets = (Offset(0, 0, 1), Offset(1000, 100, 1))
    assert [on_rank_0(at, offsets) for at in (-10, 0, 500, 1000, 2000)] == [-10, 0, 550, 1100, 2100]


@given(skew=st.integers(-50, 50), error=st.integers(0, 5))
def test_skewed_clocks_send_no_arrow_back_beyond_the_bound(skew, error):
    send = operation("send", (1,), 10, 12)
    recv = operation("recv", (0,), 11 + skew, 12 + skew, source=0)
    offsets = (Offset(0, (error - skew) * MS, error * MS),)
    trace = Trace.of([recording(0, send), recording(1, recv, spans=(), offsets=offsets)], 2)
    ((sent, received),) = trace.messages
    assert received.end >= sent.start - trace.clock_error and trace.clock_error == error / 1000
