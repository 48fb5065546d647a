"""Who sent how many bytes to whom; and what each rank gave to collectives, which is another matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.figures.colours import QUIET, RIM, rank_colour
from labkit.figures.style import figure, in_style, place_freely
from labkit.figures.units import BYTES, short, size, unit
from labkit.trace.event import COMPUTE

if TYPE_CHECKING:
    from labkit.trace import Trace

BAR = 0.16  # of a cell: the height of the bar below a number, which fills the cell for the largest one
MARGIN = 0.9  # inches, left of the cells of a panel
STRIP = 0.14  # of a cell: the colour of a rank beside its number


@in_style
def traffic(trace: Trace, title: str | None = None) -> Figure:
    """Draw bytes by sender and receiver, and beside that bytes by rank and collective. Returns a Figure.

    Only messages have one receiver. What a collective sends to whom inside MPI cannot be seen, so its
    column holds the bytes of the tensor that each rank passed to it. `title`: if not given, whom the
    bytes leave and reach.
    """
    ranks = trace.world_size
    sent, given, verbs = _tables(trace)
    cell = min(0.6, max(0.36, 5.5 / ranks))
    wide = max([0.1 * len(verb) / cell for verb in verbs], default=1)  # columns have room for their names
    widths = [ranks] * bool(sent.any() or not verbs) + [max(wide * len(verbs), 2.7 / cell)] * bool(verbs)
    width, height = max(sum(widths) * cell + MARGIN * len(widths), 5.0), ranks * cell + 0.8 + 0.6
    title = title or _finding(sent, given, verbs)
    made, panels = figure(title, width=width, height=height, columns=len(widths), squeeze=False)
    place_freely(made)  # so that a cell has the same size in both
    for place, axes in enumerate(panels[0]):
        left = MARGIN * (place + 1) - 0.3 + sum(widths[:place]) * cell
        axes.set_position([left / width, 0.6 / height, widths[place] * cell / width, ranks * cell / height])
    messages, collectives = panels[0][0], panels[0][-1]
    if sent.any() or not verbs:
        name = _matrix(messages, sent, range(ranks), cell)
        messages.set(xlabel="to rank", ylabel="from rank")
        messages.set_title(f"messages\n{name} from row to column", fontsize=10)
        for rank in range(ranks):
            messages.add_patch(_strip(rank, (rank, ranks), (1, STRIP)))
    if verbs:
        name = _matrix(collectives, given, verbs, cell, wide=wide)
        collectives.set(ylabel="rank")
        collectives.set_title(f"collectives\n{name} of the tensor that a rank passed", fontsize=10)
    return made


def _strip(rank: int, corner: tuple[float, float], size: tuple[float, float]) -> Rectangle:
    return Rectangle(corner, *size, facecolor=rank_colour(rank), edgecolor="white", clip_on=False)


def _tables(trace: Trace) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Bytes by sender and receiver, bytes by rank and collective, and the collectives."""
    verbs = list(dict.fromkeys(e.verb for e in trace.events if e.verb not in (COMPUTE, "send", "recv")))
    sent, given = np.zeros((trace.world_size, trace.world_size)), np.zeros((trace.world_size, len(verbs)))
    for event in trace.events:
        if event.verb == "send":
            sent[event.rank, event.peers[0]] += event.bytes
        elif event.verb in verbs:
            given[event.rank, verbs.index(event.verb)] += event.bytes
    return sent, given, verbs


def _matrix(axes: Axes, numbers: np.ndarray, columns: Iterable, cell: float, wide: float = 1.0) -> str:
    """A cell with its number and a bar as long where there is one; returns the unit of the numbers."""
    most = numbers.max(initial=0) or 1
    scale, name = unit(most, BYTES)
    rows, width = numbers.shape
    grid: dict[str, Any] = {"colors": RIM, "linewidth": 0.5}
    axes.vlines(np.arange(width + 1) * wide, 0, rows, **grid)
    axes.hlines(np.arange(rows + 1), 0, width * wide, **grid)
    for (row, column), number in np.ndenumerate(numbers):
        if number:
            x, y = (column + 0.5) * wide, row + 0.5 * (1 - BAR)
            bar = Rectangle((column * wide, row + 1 - BAR), wide * number / most, BAR, facecolor=QUIET)
            bar.set_gid(f"{number:.0f} bytes")
            axes.add_patch(bar)
            axes.text(x, y, short(number / scale), ha="center", va="center", fontsize=min(10, 22 * cell))
    for rank in range(rows):
        axes.add_patch(_strip(rank, (-STRIP, rank), (STRIP, 1)))
    axes.set_xticks((np.arange(width) + 0.5) * wide, list(map(str, columns)))
    axes.set_yticks(np.arange(rows) + 0.5, list(map(str, range(rows))))
    axes.set(xlim=(-STRIP, width * wide), ylim=(rows + STRIP, 0), aspect="equal", anchor="NW")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return name


def _finding(sent: np.ndarray, given: np.ndarray, verbs: list[str]) -> str:
    total = sent.sum()
    if total == 0:
        return (
            f"No message: {size(given.sum())} went through {', '.join(verbs)}"
            if verbs
            else "No bytes were sent"
        )
    out, into = sent.sum(1), sent.sum(0)
    if len(sent) > 2 and (np.count_nonzero(sent, axis=1) == 1).all() and len(set(out)) == 1:
        return f"Every rank sends {size(out[0])}, to one other rank"
    through = out + into
    if through.max() == total and len(sent) > 2 and np.count_nonzero(through) > 2:
        return f"Every byte goes through rank {through.argmax()}: {size(total)}"
    if len(set(out)) == 1:
        return f"Every rank sends {size(out[0])}, {size(total)} together"
    return f"Ranks send {size(total)} together, rank {out.argmax()} most: {out.max() / total:.0%}"
