"""Colours that every reader can tell apart, text that every reader can read, whatever the settings."""

import itertools
from io import BytesIO

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from labkit.figures import traffic
from labkit.figures.style import (
    QUIET,
    RANK_COLOURS,
    WAIT,
    contrast,
    figure,
    half_opaque,
    ink,
    line,
    line_of_many,
    place_freely,
    rank_colour,
)

from . import traces, vision

RANKS = 15
"""CIELAB distance of any two ranks' colours: some seven times what is just noticeable."""
KINDS = 9
"""The same for compute, communication, waiting and the page of one rank: four times."""


def figure_pixels(made, **how):
    file = BytesIO()
    made.savefig(file, format="png", **how)
    file.seek(0)
    return plt.imread(file)


@pytest.mark.parametrize("seen", vision.SEEN)
def test_ranks_are_told_apart(seen):
    pairs = [*itertools.combinations(range(8), 2), *itertools.pairwise(range(17))]
    for one, other in pairs:
        assert vision.distance(rank_colour(one), rank_colour(other), seen) > RANKS, (one, other)


@pytest.mark.parametrize("seen", vision.SEEN)
@pytest.mark.parametrize("rank", range(8))
def test_compute_communication_and_waiting_of_a_rank_are_told_apart(rank, seen):
    looks = rank_colour(rank), half_opaque(rank_colour(rank)), WAIT, "white"
    for one, other in itertools.combinations(looks, 2):
        assert vision.distance(one, other, seen) > KINDS, (one, other)


@pytest.mark.parametrize(("look", "most"), [(line, 4), (line_of_many, 16)])
def test_curves_that_are_no_ranks_are_told_apart_without_colours(look, most):
    looks = [look(number) for number in range(most)]
    assert len({(each["color"], each["linestyle"]) for each in looks}) == most
    assert all(len(set(matplotlib.colors.to_rgb(each["color"]))) == 1 for each in looks)


def test_simulated_vision_is_what_the_names_say():
    assert vision.distance("white", "black") == pytest.approx(100, abs=0.1)
    red, green = "#D55E00", "#8A8A00"
    assert vision.distance(red, green, "deuteranopia") < vision.distance(red, green) / 2
    for seen in vision.SEEN:
        assert vision.distance("white", "white", seen) == 0
        assert np.linalg.norm(vision.lab("0.5", seen)[1:]) < 1, "grey stays grey"


def test_contrast_is_that_of_wcag():
    assert contrast("white", "black") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.01)


def test_text_is_legible_on_whatever_it_stands():
    for colour in RANK_COLOURS:
        assert contrast("black", half_opaque(colour)) >= 4.5
        assert contrast(ink(colour), colour) >= 4.5
    assert contrast("black", WAIT) >= 4.5 and contrast(QUIET, "white") >= 4.5 and contrast(QUIET, WAIT) >= 4.5


def test_numbers_in_the_traffic_are_legible():
    for axes in traffic(traces.naive(4)).axes:
        darkest = axes.collections[0].to_rgba(axes.collections[0].get_array().max())
        assert contrast("black", darkest) >= 4.5
        assert {text.get_color() for text in axes.texts} == {"black"}


def test_a_readers_settings_change_nothing():
    def draw():
        made, axes = figure("Some finding")
        axes.plot([1, 2, 3])
        axes.set_xlabel("time (s)")
        return figure_pixels(made)

    expected = draw()
    with plt.style.context(["dark_background", {"font.size": 30, "axes.grid": True, "figure.dpi": 30}]):
        found = draw()
        assert matplotlib.rcParams["font.size"] == 30, "and the reader's settings are theirs again"
    assert np.array_equal(found, expected)


def test_figures_are_opaque_white_under_any_theme():
    with plt.style.context("dark_background"):
        pixels = figure_pixels(figure("Some finding")[0])
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == 1).all()


def test_a_long_title_is_broken_into_lines():
    made, _ = figure("word " * 40, width=7)
    made.draw_without_rendering()
    assert made._suptitle.get_window_extent().x1 <= made.bbox.x1
    place_freely(made)
    assert made.get_suptitle().count("\n") >= 2
