"""Colours that every reader can tell apart, text that every reader can read, whatever the settings."""

import itertools
import re
from io import BytesIO
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from labkit import figures
from labkit.figures.colours import (
    DARK_PAGE,
    GREYS,
    PAGE,
    QUIET,
    RANK_COLOURS,
    RIM,
    WAIT,
    contrast,
    half_opaque,
    in_the_dark,
    ink,
    rank_colour,
)
from labkit.figures.lessons.fastest import FILLS
from labkit.figures.style import figure, line, line_of_many, place_freely

from . import vision

RANKS = 15
"""CIELAB distance of any two ranks' colours: some seven times what is just noticeable."""
KINDS = 9
"""The same for compute, communication, waiting and the page of one rank: four times."""
FIGURES = Path(figures.__file__).parent
PAGES = to_rgb, lambda colour: to_rgb(in_the_dark(colour)[0])
"""What a colour is on a light page, and on a dark one."""


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
@pytest.mark.parametrize("on", PAGES)
def test_compute_communication_and_waiting_of_a_rank_are_told_apart(rank, seen, on):
    looks = map(on, (rank_colour(rank), half_opaque(rank_colour(rank)), WAIT, PAGE))
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


def test_a_page_is_jupyterlabs_in_each_theme_and_a_rank_has_one_colour_on_both():
    assert to_hex(in_the_dark(PAGE)[0]) == DARK_PAGE
    for colour in RANK_COLOURS:
        assert to_hex(in_the_dark(colour)[0]) == colour.lower()


@pytest.mark.parametrize("on", PAGES)
def test_text_and_marks_have_the_contrast_of_wcag_aa(on):
    for colour in *RANK_COLOURS, *GREYS, RIM, QUIET:
        assert contrast(on(colour), on(PAGE)) >= 3
        assert contrast(on(ink(colour)), on(colour)) >= 4.5
    for colour in *RANK_COLOURS, QUIET:
        assert contrast(on("black"), on(half_opaque(colour))) >= 4.5
    for text, behind in itertools.product(("black", QUIET), (PAGE, WAIT)):
        assert contrast(on(text), on(behind)) >= 4.5
    for one, neighbour in itertools.combinations(FILLS, 2):
        assert contrast(on(one), on(neighbour)) >= 3


def test_no_figure_has_a_colour_of_its_own():
    for path in FIGURES.rglob("*.py"):
        own = re.findall(
            r'"(#\w{6}|0\.\d+|C\d|\w*gr[ae]y|(?:\w+:)?(?:red|blue|green|orange))"', path.read_text()
        )
        assert own == [] or path.name == "colours.py", path


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
