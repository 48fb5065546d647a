"""An algorithm step by step, all steps beside each other: who holds what, and what was just sent to whom."""

from dataclasses import dataclass

from matplotlib.collections import PolyCollection

from labkit.figures.cells import Cell, draw_cells, number_ranks
from labkit.figures.style import figure, in_style

WIDTH = 9.0  # inches
LARGEST, SMALLEST = 0.34, 0.1  # inches of a cell
ABOVE, LEFT, RIGHT, BELOW = 1.3, 1.2, 0.6, 0.5  # cells around those of a step
NAME = 0.2  # inches


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
def steps(states, title: str):
    """Draw the states in their order, an arrow per message. Returns a Figure.

    A rank has a row, a chunk a column. What a step changed has a black frame; an arrow comes from the
    rank that sent it. Where cells get too small for numbers, their colours stay.
    """
    ranks = len(states[0].cells)
    wide, tall = _size(states[0])
    columns = max(1, min(len(states), int(WIDTH / (wide * LARGEST))))
    while columns < len(states) and WIDTH / (wide * (columns + 1)) >= _readable(ranks):
        columns += 1
    cell = max(SMALLEST, min(LARGEST, WIDTH / (wide * columns)))
    above = max(ABOVE, NAME / cell)
    lines = -(-len(states) // columns)
    height = lines * (tall + above) * cell
    made, axes = figure(title, width=WIDTH, height=height + 0.45)
    axes.set(xlim=(0, WIDTH / cell), ylim=(height / cell, 0), aspect="equal", anchor="NW")
    axes.axis("off")
    for number, state in enumerate(states):
        line, column = divmod(number, columns)
        draw_state(axes, state, column * wide + LEFT, line * (tall + above) + above, cell)
    return made


def _size(state):
    chunks = max(len(row) for row in state.cells)
    return LEFT + chunks + RIGHT, len(state.cells) + BELOW


def _readable(ranks):
    """Inches of a cell below which no more steps are put into a row."""
    return 0.24 if ranks <= 8 else SMALLEST


def draw_state(axes, state: State, left: float, top: float, inches: float):
    """One step, its first cell at (left, top); a cell is `inches` wide."""
    axes.text(left, top - 0.03 / inches, state.name, va="bottom", fontsize=10 if inches > 0.2 else 8)
    number_ranks(axes, len(state.cells), left, top, inches)
    draw_cells(axes, state.cells, left, top, inches)
    frames = []
    for message in state.messages:
        x, y = left + message.chunk, top + message.to
        frames.append([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)])
        way = 1 if message.to > message.source else -1
        beside = x + 0.5 + 0.36 * way
        ends = (beside, y + 0.5 - 0.4 * way), (beside, top + message.source + 0.5 + 0.1 * way)
        look = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "facecolor": "black"}
        look |= {"linewidth": min(1.0, 4 * inches), "mutation_scale": min(9, 30 * inches)}
        axes.annotate("", *ends, arrowprops=look)
    width = min(1.5, 5 * inches)
    axes.add_collection(PolyCollection(frames, facecolors="none", edgecolors="black", linewidths=width))
