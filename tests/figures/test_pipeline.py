"""Every pass is drawn where it was, in the colour of its stage, backward pale; below it what is stored."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from labkit.algorithms import gpipe, one_forward_one_backward
from labkit.figures.colours import WAIT, half_opaque, rank_colour
from labkit.figures.lessons.pipeline import pipeline, stored_over_time
from labkit.schedule import pipeline_schedule, stored
from labkit.simulate import ETHERNET_1G, Network, simulate

FREE = Network(alpha=0.0, bandwidth=1.0)


def trace(make, stages, microbatches, network=FREE, nbytes=0):
    return simulate(pipeline_schedule(make(stages, microbatches), 1.0, 2.0), network, nbytes)


def bars(axes, rank, kind):
    """(left, right) of each bar, and its colour."""
    (found,) = (c for c in axes.collections if c.get_gid() == f"rank {rank}: {kind}")
    extents = [path.get_extents() for path in found.get_paths()]
    return [(e.x0, e.x1) for e in extents], tuple(found.get_facecolor()[0][:3])


@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
@pytest.mark.parametrize("stages", (2, 4, 16))
def test_each_pass_has_a_bar_in_the_colour_of_its_stage(make, stages):
    shown = trace(make, stages, 5)
    axes = pipeline(shown).axes[0]
    for rank in range(stages):
        for kind, letter, colour in (
            ("forward", "F", to_rgb(rank_colour(rank))),
            ("backward", "B", half_opaque(rank_colour(rank))),
        ):
            expected = [(e.start, e.end) for e in shown.events if e.rank == rank and e.label[:1] == letter]
            found, seen = bars(axes, rank, kind)
            assert np.allclose(found, expected[: len(found)]) and len(found) == 5
            assert np.allclose(seen, colour, atol=0.01)
        assert np.allclose(bars(axes, rank, "idle")[1], to_rgb(WAIT), atol=0.01)


def test_bars_have_the_numbers_of_their_micro_batches():
    texts = [text.get_text() for text in pipeline(trace(gpipe, 2, 3)).axes[0].texts]
    assert sorted(texts) == sorted("012" * 4)


@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
def test_the_memory_strip_ends_with_the_most_that_is_stored(make):
    shown = trace(make, 4, 8)
    strip = pipeline(shown).axes[1]
    assert [text.get_text() for text in strip.texts] == [str(max(own)) for own in stored(make(4, 8))]
    for rank in range(4):
        history = stored_over_time(shown, rank)
        assert history[-1][1] == 0 and max(count for _, count in history) == max(stored(make(4, 8))[rank])


def test_communication_is_drawn_where_a_receive_holds_a_rank_up():
    made = pipeline(trace(gpipe, 2, 3, ETHERNET_1G, 125_000_000))  # a second each
    (found, _) = bars(made.axes[0], 1, "communication")
    assert found[0] == pytest.approx((1, 2), abs=1e-3)
    assert not [c for c in made.axes[0].collections if c.get_gid() == "rank 0: communication"][1:]


def test_several_traces_share_the_time_axis():
    shown = {"GPipe": trace(gpipe, 2, 4), "1F1B": trace(one_forward_one_backward, 2, 4)}
    made = pipeline(shown)
    assert len(made.axes) == 4 and len({axes.get_xlim() for axes in made.axes}) == 1
    assert made.get_suptitle() == "GPipe: 20% idle, up to 4 stored; 1F1B: 20% idle, up to 2 stored"


def test_the_title_states_the_finding():
    assert pipeline(trace(gpipe, 4, 8)).get_suptitle() == "27% idle, up to 8 stored"
    assert pipeline(trace(gpipe, 2, 2), "Mine").get_suptitle() == "Mine"
