"""Curves are named at their ends, and step times add up."""

import pytest

from labkit.figures import curves, step_time
from labkit.figures.spans import time_spent
from labkit.trace import Trace

from . import traces
from .pictures import runs


@pytest.mark.parametrize("count", (1, 2, 4, 16))
def test_every_run_is_named_and_no_name_lies_on_another(count):
    made = curves(runs(count))
    made.draw_without_rendering()
    names = [text for text in made.axes[-1].texts if text.get_text()]
    assert sorted(text.get_text() for text in names) == sorted(runs(count))
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:], strict=False))
    assert all(made.bbox.padded(1).contains(*box.max) for box in boxes)


def test_sixteen_runs_are_told_apart():
    lines = curves(runs(16)).axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle(), line.get_linewidth()) for line in lines}) == 16


def test_accuracy_has_a_panel_where_there_is_one():
    assert len(curves(runs(2)).axes) == 2
    only_loss = curves({"a": ([2.0, 1.0], []), "b": ([2.0, 0.5], [])})
    assert len(only_loss.axes) == 1 and only_loss.get_suptitle() == "B ends with the lowest loss: 0.5"
    assert curves({"a": ([1.0, 0.0], [0.5])}).axes[0].get_yscale() == "linear"
    assert len(curves({"a": ([], [0.5, 0.9])}).axes) == 1


@pytest.mark.parametrize("world_size", (2, 4, 16))
def test_the_bars_of_a_rank_add_up_to_its_time(world_size):
    trace = traces.straggler(world_size)
    bars = step_time(trace, steps=3).axes[0].patches
    for rank, spent in enumerate(time_spent(trace)):
        mine = [bar.get_width() for bar in bars if round(bar.get_y() + bar.get_height() / 2) == rank]
        assert sum(mine) == pytest.approx(1000 * sum(spent.values()) / 3, rel=0.01)


def test_runs_are_means_over_their_ranks():
    made = step_time({"two": traces.straggler(2), "four": traces.straggler(4)}, steps=3)
    assert [label.get_text() for label in made.axes[0].get_yticklabels()] == ["two", "four"]
    assert made.get_suptitle().startswith("Least time of a step: two, ")


def test_nothing_recorded_is_no_error():
    assert step_time(Trace(2, ())).get_suptitle() == "Nothing was recorded"
