"""Numbers that ranks hold, as rows of cells in the colours of the ranks whose data are in them."""

from dataclasses import dataclass

from matplotlib.collections import PolyCollection

from labkit.figures.style import half_opaque, rank_colour

LEAST = 0.15  # inches: in smaller cells there is no number


@dataclass(frozen=True)
class Cell:
    """What a rank holds in one place: a number, and the ranks whose data are in it."""

    value: float
    owners: tuple[int, ...]


def draw_cells(axes, rows, left: float, top: float, inches: float):
    """A row per rank from (left, top) on. One cell is 1 by 1 in the data's units, which are `inches` long."""
    stripes, colours, boxes = [], [], []
    longest = max((len(f"{cell.value:g}") for row in rows for cell in row), default=1)
    letters = 72 * inches * min(0.42, 1.4 / longest)
    for rank, row in enumerate(rows):
        for column, cell in enumerate(row):
            x, y = left + column, top + rank
            boxes.append(_box(x, y, 1))
            for part, owner in enumerate(cell.owners):
                stripes.append(_box(x + part / len(cell.owners), y, 1 / len(cell.owners)))
                colours.append(half_opaque(rank_colour(owner)))
            if inches >= LEAST:
                axes.text(x + 0.5, y + 0.5, f"{cell.value:g}", ha="center", va="center", fontsize=letters)
    axes.add_collection(PolyCollection(stripes, facecolors=colours, linewidths=0))
    grid = {"facecolors": "none", "edgecolors": "white", "linewidths": max(0.5, 6 * inches)}
    axes.add_collection(PolyCollection(boxes, **grid))


def number_ranks(axes, ranks: int, left: float, top: float, inches: float):
    """The number of each rank beside its row, or of some where the rows are small."""
    every = 1 if inches >= LEAST else 5
    size = max(6, min(9, 72 * inches * 0.6))
    for rank in range(0, ranks, every):
        axes.text(left - 0.25, top + rank + 0.5, str(rank), ha="right", va="center", fontsize=size)


def _box(x, y, width):
    return [(x, y), (x + width, y), (x + width, y + 1), (x, y + 1)]
