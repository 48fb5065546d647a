"""Which rank holds which part of a matrix: a product of split matrices, as tiles in the ranks' colours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from labkit.figures.cells import TITLE, box, rule
from labkit.figures.colours import QUIET, half_opaque, rank_colour
from labkit.figures.style import figure, in_style, place_freely

GAP, NAME, WIDEST = 0.5, 0.34, 9.0  # inches: between matrices, above and below them, of all
FOOT = 0.1  # of a tile: its lower end, in the full colour
STRIPES = 12
"""So many per side of a tile show that it is a sum over ranks."""
LEAST = 0.14  # inches: a narrower tile has no number


@dataclass(frozen=True)
class Tiles:
    """A matrix and the part of it that each rank holds: {rank: (rows, columns)}, as half-open ranges.

    Ranks may hold the same tile: all of them the same numbers, or, if `partial`, each a part of the sum.
    """

    name: str
    shape: tuple[int, int]
    parts: Mapping[int, tuple[tuple[int, int], tuple[int, int]]]
    partial: bool = False


def split(
    name: str,
    shape: tuple[int, int],
    ranks: int,
    rows: Callable[[int], tuple[int, int]] = lambda rank: (0, 1),
    columns: Callable[[int], tuple[int, int]] = lambda rank: (0, 1),
    partial: bool = False,
) -> Tiles:
    """A matrix of which rank r holds the k-th of n parts, from 0 on; `rows(r)` and `columns(r)` are (k, n).

    >>> split("A", (4, 6), 2, columns=lambda rank: (rank, 2)).parts[1]
    ((0, 4), (3, 6))
    """
    parts = {r: (_part(shape[0], *rows(r)), _part(shape[1], *columns(r))) for r in range(ranks)}
    return Tiles(name, shape, parts, partial)


def _part(length: int, k: int, n: int) -> tuple[int, int]:
    return length * k // n, length * (k + 1) // n


@in_style
def tiles(products: Mapping[str, Sequence[Tiles]], title: str) -> Figure:
    """Draw each product as a row of matrices: X · A = Y. Returns a Figure; `title` states the finding.

    A tile that one rank holds has its colour and its number; what several hold is white, and names them; what
    is a sum over ranks is striped in their colours. First drawn in lesson 16.
    """
    wide = max(sum(m.shape[1] for m in row) for row in products.values())
    most = max(map(len, products.values()))
    tall = [max(m.shape[0] for m in row) for row in products.values()]
    inches = min(0.22, (WIDEST - GAP * (most + 1)) / wide)
    width = max(6.0, wide * inches + GAP * (most + 1))
    height = TITLE + sum(t * inches + 2 * NAME for t in tall)
    made, axes = figure(title, width=width, height=height)
    place_freely(made)
    axes.set_position([0, 0, 1, 1 - TITLE / height])
    rule(axes, width, height - TITLE)
    top = 0.0
    for (name, row), rows in zip(products.items(), tall, strict=True):
        axes.text(0.1, top + NAME / 2, name, va="center", fontsize=11)
        left, middle = GAP, top + NAME + rows * inches / 2
        for place, matrix in enumerate(row):
            if place:
                sign = "=" if place == len(row) - 1 else "·"
                axes.text(left - GAP / 2, middle, sign, ha="center", va="center", fontsize=14)
            _draw(axes, matrix, left, middle - matrix.shape[0] * inches / 2, inches)
            left += matrix.shape[1] * inches + GAP
        top += rows * inches + 2 * NAME
    return made


def _draw(axes: Axes, matrix: Tiles, left: float, top: float, inches: float) -> None:
    holders: dict[tuple, list[int]] = {}
    for rank, part in sorted(matrix.parts.items()):
        holders.setdefault(part, []).append(rank)
    stripes, colours, edges = [], [], []
    for ((first, last), (begin, end)), ranks in holders.items():
        x, y = left + begin * inches, top + first * inches
        w, h = (end - begin) * inches, (last - first) * inches
        says, looks = _look(matrix, ranks)
        for k, colour in enumerate(looks):
            left_of, wide = x + w * k / len(looks), w / len(looks)
            stripes += [box(left_of, y, wide, h), box(left_of, y + h * (1 - FOOT), wide, h * FOOT)]
            colours += [half_opaque(colour), colour]
        edges.append(box(x, y, w, h))
        if min(w / (0.6 * len(says)), h) >= LEAST:
            size = min(11, 72 * min(w / len(says), h) * 0.8)
            label = axes.text(x + w / 2, y + h / 2, says, ha="center", va="center", fontsize=size)
            label.set_bbox({"facecolor": "white", "pad": 1, "lw": 0} if len(looks) > 1 else None)
    rows, columns = matrix.shape
    whole = box(left, top, columns * inches, rows * inches)
    axes.add_collection(PolyCollection(stripes, facecolors=colours, edgecolors="none"))
    axes.add_collection(PolyCollection(edges, facecolors="none", edgecolors="white", linewidths=1.5))
    axes.add_collection(PolyCollection([whole], facecolors="none", edgecolors=QUIET, linewidths=0.8))
    below = top + rows * inches + NAME / 2
    axes.text(left + columns * inches / 2, below, matrix.name, ha="center", va="center", fontsize=10)


def _look(matrix: Tiles, ranks: list[int]) -> tuple[str, list]:
    """What a tile says that these ranks hold, and its colours from left to right."""
    own = [rank_colour(rank) for rank in ranks]
    if len(ranks) == 1:
        return str(ranks[0]), own
    if matrix.partial:
        return "Σ", own * max(1, STRIPES // len(ranks))
    return "all" if len(ranks) == len(matrix.parts) else ", ".join(map(str, ranks)), []
