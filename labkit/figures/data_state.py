"""Which rank holds what before and after a collective, or from step to step. First drawn in lesson 02."""

from collections.abc import Callable, Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.figures.cells import Cell, draw_cells, number_ranks, sheet
from labkit.figures.style import in_style

WIDTH = 8.6  # inches
CELLS = (0.34, 0.3, 0.27, 0.24, 0.21)
"""Inches of a cell: the first with which all panels fit in two rows; smaller ones if one panel is wider."""
ARROW, BEFORE, AFTER, ABOVE, BELOW = 1.2, 1.0, 0.8, 1.2, 0.4  # cells


Numbers = Sequence[Sequence[float]]
"""What each rank holds."""
Owners = Callable[[float], Collection[int]]
"""The ranks whose data are in a number."""


@in_style
def data_state(panels: Sequence[tuple], owners: Owners, title: str) -> Figure:
    """Draw a panel per collective: each rank's cells before it and after it.

    `panels` is a list of (name, before, after), or with more states after these: the steps of an
    algorithm. A state holds a list of numbers per rank, an empty one where a rank holds nothing that
    counts. `owners(number)` gives the ranks whose data are in a number: they colour its cell.
    Returns a Figure.
    """
    widths = [_width(states) for _, *states in panels]
    cell = next((c for c in CELLS if len(_rows(widths, WIDTH / c)) <= 2), CELLS[-1])
    cell = min(cell, WIDTH / max(widths))
    rows = _rows(widths, WIDTH / cell)
    ranks = len(panels[0][1])
    tall = len(rows) * (ABOVE + ranks + BELOW)
    made, axes = sheet(title, WIDTH / cell, tall, cell, WIDTH)
    for line, row in enumerate(rows):
        left, top = 0.0, line * (ABOVE + ranks + BELOW) + ABOVE
        for number in row:
            _panel(axes, panels[number], owners, left, top, cell)
            left += widths[number]
    return made


def _width(states: Sequence[Numbers]) -> float:
    return BEFORE + sum(_cells(state) for state in states) + ARROW * (len(states) - 1) + AFTER


def _cells(state: Numbers) -> int:
    return max(1, *(len(numbers) for numbers in state))


def _rows(widths: Sequence[float], most: float) -> list[list[int]]:
    """Panels by row: as many beside each other as fit."""
    rows, used = [[]], 0.0
    for number, width in enumerate(widths):
        if rows[-1] and used + width > most + 1e-9:
            rows.append([])
            used = 0.0
        rows[-1].append(number)
        used += width
    return rows


def _panel(axes: Axes, panel: tuple, owners: Owners, left: float, top: float, inches: float) -> None:
    name, *states = panel
    ranks, x = len(states[0]), left + BEFORE
    axes.text(x, top - 0.3, name, va="bottom", fontsize=11)
    number_ranks(axes, ranks, x, top, inches)
    for count, state in enumerate(states):
        if count:
            ends = (x + ARROW - 0.2, top + ranks / 2), (x + 0.2, top + ranks / 2)
            axes.annotate("", *ends, arrowprops={"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0})
            x += ARROW
        cells = [[Cell(number, tuple(owners(number))) for number in numbers] for numbers in state]
        draw_cells(axes, cells, x, top, inches)
        x += _cells(state)
