"""An algorithm step by step, all steps beside each other: who holds what, and what was just sent to whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from labkit.figures.cells import Cell, box, draw_cells, number_ranks, sheet
from labkit.figures.style import in_style

WIDTH = 9.0  # inches
LARGEST, LEAST, SMALLEST = 0.38, 0.24, 0.1  # inches of a cell; the smallest one for more than 8 ranks
LETTER = 0.085  # inches
LEFT, RIGHT, BELOW = 1.2, 0.6, 0.5  # cells around those of a step
NAME = 0.28  # inches, above them


@dataclass(frozen=True)
class Message:
    """What a step sent: one chunk, from a rank to another one."""

    source: int
    to: int
    chunk: int


@dataclass(frozen=True)
class State:
    """What each rank holds after a step, chunk by chunk, and the messages that brought it there."""

    name: str
    cells: tuple[tuple[Cell, ...], ...]
    messages: tuple[Message, ...] = ()


@in_style
def steps(states: Sequence[State], title: str) -> Figure:
    """Draw the states in their order, an arrow per message. Returns a Figure.

    A rank has a row, a chunk a column. What a step changed has a black frame; an arrow comes from the
    rank that sent it. Where cells get too small for numbers, their colours stay.
    """
    ranks, chunks = len(states[0].cells), max(len(row) for row in states[0].cells)
    wide, tall = LEFT + chunks + RIGHT, ranks + BELOW
    name = LETTER * max(len(state.name) for state in states)
    least = max(LEAST if ranks <= 8 else SMALLEST, name / (wide - LEFT / 2))
    columns = max(1, min(len(states), int(WIDTH / (wide * least))))
    columns = -(-len(states) // -(-len(states) // columns))  # no fewer in the last line than need be
    cell = max(SMALLEST, min(LARGEST, WIDTH / (wide * columns)))
    wide = max(wide, name / cell + LEFT)
    above = NAME / cell
    lines = -(-len(states) // columns)
    made, axes = sheet(title, columns * wide, lines * (tall + above), cell, WIDTH)
    for number, state in enumerate(states):
        line, column = divmod(number, columns)
        draw_state(axes, state, column * wide + LEFT, line * (tall + above) + above, cell)
    return made


def draw_state(axes: Axes, state: State, left: float, top: float, inches: float) -> None:
    """One step, its first cell at (left, top); a cell is `inches` wide."""
    axes.text(left, top - 0.03 / inches, state.name, va="bottom", fontsize=10)
    number_ranks(axes, len(state.cells), left, top, inches)
    draw_cells(axes, state.cells, left, top, inches)
    frames, arrows = [], []
    for message in state.messages:
        x, y = left + message.chunk, top + message.to
        frames.append(box(x, y, 1))
        way = 1 if message.to > message.source else -1
        begin, end = top + message.source + 0.5 + 0.1 * way, y + 0.5 - 0.35 * way
        arrows.append((x + 0.5 + 0.33 * way, begin, 0, end - begin))
    black: dict[str, Any] = {"edgecolors": "black", "linewidths": min(1.5, 5 * inches)}
    axes.add_collection(PolyCollection(frames, facecolors="none", **black, gid="messages"))
    if arrows:
        look: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1, "units": "inches"}
        look |= {"headwidth": 6, "headlength": 7, "headaxislength": 6, "minlength": 0}
        axes.quiver(*zip(*arrows, strict=True), width=0.045 * inches, color="black", zorder=3, **look)
