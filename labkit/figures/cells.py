"""Numbers that ranks hold, as rows of cells in the colours of the ranks whose data are in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, half_opaque, rank_colour
from labkit.figures.style import figure, place_freely

TITLE = 0.4  # inches
FOOT = 0.1  # of a cell: its lower end, in the full colour
STRIPE = 0.04  # inches: the thinnest that shows its colour
LEAST = 0.15  # inches: in smaller cells there is no number


@dataclass(frozen=True)
class Cell:
    """What a rank holds in one place: a number, and the ranks whose data are in it."""

    value: float
    owners: tuple[int, ...]


def sheet(title: str, wide: float, tall: float, inches: float, width: float) -> tuple[Figure, Axes]:
    """A figure and its axes: so many cells wide and tall, each `inches` wide, in `width` inches or more."""
    width, height = max(width, wide * inches), tall * inches + TITLE
    made, axes = figure(title, width=width, height=height)
    place_freely(made)
    axes.set_position([0, 0, 1, tall * inches / height])
    rule(axes, width / inches, tall)
    return made, axes


def rule(axes: Axes, wide: float, tall: float) -> None:
    """Let the axes count cells, rows downwards."""
    axes.axis("off")
    axes.set(xlim=(0, wide), ylim=(tall, 0))


def draw_cells(axes: Axes, rows: Sequence[Sequence[Cell]], left: float, top: float, inches: float) -> None:
    """A row per rank from (left, top) on. One cell is 1 by 1 in the data's units, which are `inches` long.

    A cell has a stripe for each owner, with its full colour at the foot; of too many for that, the share of
    all ranks is filled in grey.
    """
    stripes, colours, boxes = [], [], []
    longest = max((len(f"{cell.value:g}") for row in rows for cell in row), default=1)
    letters = min(11, 72 * inches * min(0.55, 1.45 / longest))
    for rank, row in enumerate(rows):
        for column, cell in enumerate(row):
            x, y = left + column, top + rank
            boxes.append(box(x, y, 1))
            if len(cell.owners) > inches / STRIPE:
                share = len(cell.owners) / len(rows)
                stripes += [box(x, y + 1, 1, -share), box(x, y + 1 - FOOT, 1, FOOT)]
                colours += [half_opaque(QUIET), QUIET]
            else:
                for part, owner in enumerate(cell.owners):
                    left_of, wide = x + part / len(cell.owners), 1 / len(cell.owners)
                    stripes += [box(left_of, y, wide), box(left_of, y + 1 - FOOT, wide, FOOT)]
                    colours += [half_opaque(rank_colour(owner)), rank_colour(owner)]
            if inches >= LEAST:
                axes.text(x + 0.5, y + 0.5, f"{cell.value:g}", ha="center", va="center", fontsize=letters)
    axes.add_collection(PolyCollection(stripes, facecolors=colours, linewidths=0))
    grid: dict[str, Any] = {"facecolors": "none", "edgecolors": "white", "linewidths": max(0.5, 6 * inches)}
    axes.add_collection(PolyCollection(boxes, **grid))


def number_ranks(axes: Axes, ranks: int, left: float, top: float, inches: float) -> None:
    """The number of each rank beside its row, or of some where the rows are small."""
    every = 1 if inches >= LEAST else 5
    size = max(6, min(9, 72 * inches * 0.6))
    for rank in range(0, ranks, every):
        axes.text(left - 0.25, top + rank + 0.5, str(rank), ha="right", va="center", fontsize=size)


def box(x: float, y: float, width: float, height: float = 1.0) -> list[tuple[float, float]]:
    """The corners of a rectangle."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
