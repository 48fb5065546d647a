"""Who had a core when: ranks that share cores take turns. First drawn in lesson 00."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.figures.colours import rank_colour
from labkit.figures.looks import look
from labkit.figures.style import figure, in_style

LOST_CORE = 0.001
"""Seconds between two ticks from which on a rank is drawn as waiting for a core."""


@in_style
def turns(alone: Sequence[float], together: Sequence[Sequence[float]], cores: int) -> Figure:
    """Draw one job alone and the same job on every rank at once.

    `alone` holds the clock readings in seconds that one rank took at each step of its job,
    `together` such a list per rank, `cores` how many cores the ranks share. Returns a Figure.
    """
    once = alone[-1] - alone[0]
    first = min(ticks[0] for ticks in together)
    ratio = (max(ticks[-1] for ticks in together) - first) / once
    finding = f"{len(together)} jobs on {cores} cores took {ratio:.1f} times as long as one job"
    made, axes = figure(finding, height=2.8)
    rows = [(np.array(alone) - alone[0], 0, "rank 0 alone")]
    rows += [(np.array(ticks) - first, rank, f"rank {rank}") for rank, ticks in enumerate(together)]
    for row, (ticks, rank, _) in enumerate(rows):
        _draw(axes, row, ticks * 1000, rank)
    axes.axhline(0.5, color="black", linewidth=0.6)
    axes.set_yticks(range(len(rows)), [label for _, _, label in rows])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("time (ms); hatched: ready to run, waiting for a core")
    return made


def _draw(axes: Axes, row: int, ticks: np.ndarray, rank: int) -> None:
    axes.barh(row, ticks[-1] - ticks[0], left=ticks[0], height=0.7, **look("off the CPU", rank_colour(rank)))
    lost = np.flatnonzero(np.diff(ticks) > LOST_CORE * 1000)
    starts = np.concatenate([ticks[:1], ticks[lost + 1]])
    ends = np.concatenate([ticks[lost], ticks[-1:]])
    spans = list(zip(starts, ends - starts, strict=True))
    axes.broken_barh(spans, (row - 0.35, 0.7), facecolors=rank_colour(rank))
