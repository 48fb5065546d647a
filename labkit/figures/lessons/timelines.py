"""Several runs on one axis of time, one below the other: who computed and who waited in each. Lesson 08."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from labkit.figures.colours import rank_colour
from labkit.figures.looks import legend
from labkit.figures.spans import extent
from labkit.figures.style import figure, in_style
from labkit.figures.timeline import WIDTH, lanes, lanes_height
from labkit.figures.units import unit

if TYPE_CHECKING:
    from labkit.trace import Trace

ROOM = 0.4
"""Inches for the name of a run."""
LOW = 0.6
"""Lanes are lower by this factor than in a picture of one trace."""
OVERLAP = 0.02
"""What a rank does at once for less than this part of the time is drawn one after the other."""


@in_style
def timelines(traces: Mapping[str, Trace], title: str) -> Figure:
    """Draw each trace as `timeline` does, all to one scale and each from its own first event.

    `traces`: {name of the run: its Trace}. A rank that computes is drawn as one that does, whether it had a
    core or slept in place of a larger network. Returns a Figure.
    """
    heights = [LOW * lanes_height(trace.world_size) for trace in traces.values()]
    made, panels = figure(
        title,
        width=WIDTH,
        height=1.35 + sum(heights) + ROOM * len(heights),
        rows=len(heights),
        squeeze=False,
        sharex=True,
        height_ratios=heights,
    )
    ends = [end - start for start, end in map(extent, traces.values())]
    length = max(ends) or 1e-6
    drawn: set[str] = set()
    rows = zip(panels[:, 0], traces.items(), heights, strict=True)
    for axes, (name, trace), height in rows:
        drawn |= lanes(axes, trace, length, height, timed=False, slack=OVERLAP)
        axes.set_title(name, fontsize=11)
    panels[-1, 0].set_xlabel(f"time since the first event ({unit(length)[1]})")
    most = max(trace.world_size for trace in traces.values())
    legend(made, drawn, [rank_colour(rank) for rank in range(most)])
    return made
