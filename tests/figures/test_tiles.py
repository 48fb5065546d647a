"""Each rank's part of a matrix has its colour, and the parts make the matrix."""

import pytest
from matplotlib.colors import to_rgb

from labkit.figures import split, tiles
from labkit.figures.colours import half_opaque, rank_colour

from . import states


def labels(made):
    return [text.get_text() for text in made.axes[0].texts]


@pytest.mark.parametrize("ranks", (1, 2, 3, 4, 5, 16))
@pytest.mark.parametrize("side", ("rows", "columns"))
def test_parts_cover_the_matrix_once_and_differ_by_one_at_most(ranks, side):
    found = split("A", (17, 17), ranks, **{side: lambda rank: (rank, ranks)})
    held = [part[side == "columns"] for part in found.parts.values()]
    assert [b for a, b in held[:-1]] == [a for a, b in held[1:]] and held[-1][1] == 17 and held[0][0] == 0
    assert {b - a for a, b in held} <= {17 // ranks, 17 // ranks + 1}


@pytest.mark.parametrize("world_size", (2, 3, 4, 16))
def test_inner_sides_match(world_size):
    """What a rank multiplies: the columns of its X are the rows of its A; its Y has their outer sides."""
    for x, a, y in states.products(world_size).values():
        for rank in range(world_size):
            assert x.parts[rank][1] == a.parts[rank][0]
            assert y.parts[rank] == (x.parts[rank][0], a.parts[rank][1])


def test_colours_say_who_holds_what():
    one = [split("A", (4, 4), 2, columns=lambda rank: (rank, 2))]
    same, sums = [split("A", (4, 4), 2)], [split("A", (4, 4), 2, partial=True)]
    colours = [
        {tuple(colour[:3]) for colour in tiles({"": row}, "T").axes[0].collections[0].get_facecolors()}
        for row in (one, same, sums)
    ]
    full = {to_rgb(rank_colour(rank)) for rank in (0, 1)}
    of_ranks = full | {half_opaque(colour) for colour in full}
    assert colours == [of_ranks, set(), of_ranks]
    assert [labels(tiles({"": row}, "T"))[1:-1] for row in (one, same, sums)] == [["0", "1"], ["all"], ["Σ"]]


def test_a_product_is_written_as_one():
    found = labels(tiles(states.products(4), "T"))
    assert [found.count(sign) for sign in "·=XAY"] == [3] * 5
    assert {"by columns", "by rows", "by both", "0, 1", "2, 3"} <= set(found)
