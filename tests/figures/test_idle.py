"""The idle chart counts who computes: the lanes, the panel below them and the title say the same."""

import pytest

from labkit.figures import idle
from labkit.figures.idle import computing
from labkit.figures.spans import extent
from labkit.trace import COMPUTE, Event, Trace

from . import traces


@pytest.mark.parametrize("make", traces.TRACES.values(), ids=traces.TRACES)
@pytest.mark.parametrize("world_size", (2, 5, 16))
def test_what_is_counted_is_what_the_ranks_compute(make, world_size):
    trace = make(world_size)
    times, counts = computing(trace)
    assert (times[0], times[-1]) == extent(trace) and len(times) == len(counts) + 1
    counted = sum(n * (b - a) for n, a, b in zip(counts, times, times[1:], strict=False))
    assert counted == pytest.approx(sum(e.end - e.start for e in trace.events if e.verb == COMPUTE))
    assert min(counts) >= 0 and max(counts) <= world_size


@pytest.mark.parametrize("world_size", (2, 5, 16))
def test_of_a_network_cut_by_layers_one_rank_computes_at_a_time(world_size):
    assert set(computing(traces.layers(world_size))[1]) == {0, 1}
    made = idle(traces.layers(world_size))
    shares = [int(text.get_text().rstrip("%")) for text in made.axes[0].texts]
    assert len(shares) == world_size and sum(shares) == pytest.approx(98, abs=1 + world_size / 2)
    assert made.get_suptitle().startswith(f"1.0 of {world_size} ranks compute at a time: ")


def test_the_title_states_the_mean():
    trace = Trace(2, (Event(0, COMPUTE, 0, 1), Event(0, "recv", 1, 4), Event(1, COMPUTE, 0, 4)))
    assert idle(trace).get_suptitle() == "1.2 of 2 ranks compute at a time: 38% of their time is idle"
    assert idle(trace, "Both wait").get_suptitle() == "Both wait"


def test_no_events_make_an_empty_chart():
    assert "0.0 of 3 ranks" in idle(Trace(3, ())).get_suptitle()
