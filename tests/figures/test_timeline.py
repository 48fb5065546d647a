"""What a timeline shows, apart from its pixels: lanes, lengths, arrows, the path, and what its title says."""

import numpy as np
import pytest

from labkit.figures import timeline
from labkit.figures.finding import finding
from labkit.figures.spans import KINDS, merged, time_spent, tracks
from labkit.trace import COMPUTE, Event, Trace

from . import traces

WORLD_SIZES = (1, 2, 4, 16)
LATE = Trace(
    3, tuple(Event(r, "barrier", at, 6, (0, 1, 2), waiting=5 - at) for r, at in enumerate((0, 2, 5)))
)


def bars(made, kind):
    """{rank: boxes of that kind, each (left, right, height)}."""
    found = {}
    for artist in made.axes[0].collections:
        rank, _, name = (artist.get_gid() or "").partition(": ")
        if name == kind:
            extents = [path.get_extents() for path in artist.get_paths()]
            found[int(rank.split()[1])] = [(box.x0, box.x1, box.height) for box in extents]
    return found


def drawn(made, gid):
    return next((artist for artist in made.axes[0].collections if artist.get_gid() == gid), None)


def length(boxes):
    return sum(right - left for left, right, _ in boxes)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_a_lane_per_rank(world_size):
    axes = timeline(traces.straggler(world_size)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"rank {r}" for r in range(world_size)]


@pytest.mark.parametrize("world_size", (2, 4, 16))
def test_bars_are_as_long_as_the_events(world_size):
    trace = traces.straggler(world_size)
    made = timeline(trace)
    for rank in range(world_size):
        mine = [event for event in trace.events if event.rank == rank]
        waited = sum(event.waiting for event in mine)
        spoke = sum(event.end - event.start - event.waiting for event in mine if event.verb != COMPUTE)
        assert length(bars(made, "waiting").get(rank, [])) == pytest.approx(1000 * waited, rel=0.01, abs=2)
        assert length(bars(made, "communication")[rank]) == pytest.approx(1000 * spoke, rel=0.02)


@pytest.mark.parametrize("world_size", (2, 4, 16))
@pytest.mark.parametrize("make", (traces.ring, traces.naive, traces.pipeline))
def test_an_arrow_per_message_from_the_sends_start_to_the_receives_end(make, world_size):
    trace = make(world_size)
    arrows = drawn(timeline(trace), "messages")
    assert len(arrows.X) == len(trace.messages) > 0
    scale = 1e6 if make is traces.ring else 1e3
    expected = sorted((scale * send.start, scale * recv.end) for send, recv in trace.messages)
    assert np.allclose(sorted(zip(arrows.X, arrows.X + arrows.U, strict=True)), expected)
    assert (np.sign(arrows.V) == [np.sign(b.rank - a.rank) for a, b in _in_order(arrows, trace, scale)]).all()


def _in_order(arrows, trace, scale):
    by_time = {(round(scale * a.start, 6), round(scale * b.end, 6)): (a, b) for a, b in trace.messages}
    return [by_time[round(x, 6), round(x + u, 6)] for x, u in zip(arrows.X, arrows.U, strict=True)]


def test_collectives_have_no_arrows():
    assert drawn(timeline(traces.ddp(4)), "messages") is None


def test_the_critical_path_goes_through_the_straggler():
    made = timeline(traces.straggler(4, slow=2))
    path = drawn(made, "critical path").get_segments()
    longest = max(path, key=lambda line: line[1][0] - line[0][0])
    assert round(longest[0][1]) == 2 and longest[1][0] - longest[0][0] == pytest.approx(500)
    times = np.array([line[:, 0] for line in path])
    assert (np.diff(times.ravel()) >= -1e-6).all(), "no way back in time"


def test_time_off_the_cpu_is_the_unfilled_part_of_a_bar():
    made = timeline(traces.crowded(4, cores=2))
    for rank in range(4):
        heights = [box[2] for kind in ("compute", "off the CPU") for box in bars(made, kind)[rank]]
        assert np.allclose(heights, heights[0], rtol=0.02)


def test_without_processor_times_nothing_is_off_the_cpu():
    assert not bars(timeline(Trace(1, (Event(0, COMPUTE, 0, 1),))), "off the CPU")


def test_what_overlaps_lies_below_each_other():
    a, b, c = Event(0, COMPUTE, 0, 10), Event(0, "all_reduce", 4, 8), Event(0, "all_reduce", 8, 12)
    assert tracks([a, b, c], 3, 0.01) == [[a], [b, c]]
    assert tracks([a, c], 3, 2.5) == [[a, c]], "within the slack"
    assert tracks([b, b, b, b], 3, 0) == [[b], [b], [b, b]]
    assert tracks([], 3, 0) == [[]]


def test_thin_spans_become_their_mix():
    thin = [(i, i + 1, {"compute" if i % 4 else "waiting": 1.0}) for i in range(400)]
    found = merged(thin, 10)
    assert len(found) <= 20 and all(end - start >= 10 for start, end, _ in found)
    spent = {kind: sum((end - start) * shares[kind] for start, end, shares in found) for kind in KINDS}
    assert spent["compute"] == pytest.approx(300, rel=0.05) and spent["waiting"] == pytest.approx(
        100, rel=0.1
    )


def test_thousands_of_events_are_some_hundreds_of_bars():
    trace = traces.busy(2, steps=2000)
    made = timeline(trace)
    assert len(trace.events) == 8000 and len(bars(made, "compute")[0]) < 400


@pytest.mark.parametrize(("seconds", "name"), [(3e-6, "µs"), (3e-3, "ms"), (3.0, "s")])
def test_the_axis_has_a_unit_that_suits(seconds, name):
    axes = timeline(Trace(1, (Event(0, COMPUTE, 5.0, 5.0 + seconds),))).axes[0]
    assert axes.get_xlabel() == f"time since the first event ({name})"
    assert axes.get_xlim() == pytest.approx((-0.015, 3.015))


@pytest.mark.parametrize(
    ("trace", "title"),
    [
        (traces.straggler(4, slow=2), "3 of 4 ranks wait 562 ms for rank 2 in all_reduce"),
        (traces.straggler(16, slow=8), "15 of 16 ranks wait 521 ms for rank 8 in all_reduce"),
        (traces.straggler(2, slow=1), "Rank 0 waits 532 ms for rank 1 in all_reduce"),
        (traces.naive(4), "3 of 4 ranks wait 2.2 ms for rank 0 in recv"),
        (LATE, "2 of 3 ranks wait up to 5 s for rank 2 in barrier"),
        (traces.ring(4), "Ranks wait 30% of the time, most of it in recv"),
        (traces.ddp(4), "Of the ranks' time: compute 73%, communication 22%, waiting 1%"),
        (traces.crowded(4), "Ranks are off the CPU for 50% of the time in which they could compute"),
        (Trace(4, ()), "Nothing was recorded: no rank communicated"),
    ],
)
def test_the_title_states_the_finding(trace, title):
    assert finding(trace) == title
    assert timeline(trace).get_suptitle() == title
    assert timeline(trace, "Mine").get_suptitle() == "Mine"


def test_groups_of_one_name_and_other_members_are_not_mixed():
    def pair(ranks, late):
        return [
            Event(rank, "barrier", at, 10.5, ranks, group="g", waiting=10 - at)
            for rank, at in zip(ranks, (0, 10) if late == ranks[1] else (10, 0), strict=True)
        ]

    assert finding(Trace(4, (*pair((0, 1), 1), *pair((2, 3), 3)))).startswith("Ranks wait") is False


def test_time_spent_counts_an_instant_once():
    events = (Event(0, COMPUTE, 0, 10, cpu=5), Event(0, "all_reduce", 4, 12, (0, 1), waiting=3))
    assert time_spent(Trace(2, events)) == [
        {"compute": 5, "off the CPU": 5, "communication": 2, "waiting": 0},
        dict.fromkeys(KINDS, 0),
    ]
