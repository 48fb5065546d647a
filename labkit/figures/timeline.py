"""Who computed, communicated and waited when: one lane per rank, an arrow per message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patheffects import withStroke

from labkit.figures.colours import WAIT, half_opaque, rank_colour
from labkit.figures.finding import finding
from labkit.figures.looks import legend, look
from labkit.figures.spans import KINDS, Span, by_rank, extent, is_timed, merged, spans, tracks
from labkit.figures.style import CourseFigure, figure, in_style
from labkit.figures.units import unit
from labkit.trace.event import Event

if TYPE_CHECKING:
    from labkit.trace import Trace

WIDTH = 9.0  # inches
LANE = 0.36  # half the height of a lane; the lanes are 1 apart
PIXELS = 700  # of the time axis: what is thinner than one of them is drawn with its neighbours
MOST_TRACKS = 3
"""How many operations of one rank are drawn beside each other where they overlap."""
EDGED = 4  # pixels: a thinner bar would be all edge, and has none
LEAST = 0.01  # a smaller share of a bar is not drawn
LETTER = 0.07  # inches: the width of one in a bar


@in_style
def timeline(trace: Trace, title: str | None = None) -> CourseFigure:
    """Draw a trace. Returns a Figure.

    Compute has the colour of the rank, communication the same half-opaque, waiting is pale grey. Where
    a rank lacked a core, only that part of its bar is filled that it had one. Operations that overlap on
    a rank lie below each other. An arrow goes from the start of a send to the end of its receive; a
    black line marks the critical path. What is thinner than a pixel is drawn as the mix that it is.
    `title`: if not given, what the trace shows most: who waits for whom, or for a core.
    """
    ranks = trace.world_size
    height = lanes_height(ranks)
    made, axes = figure(title or finding(trace), width=WIDTH, height=1.35 + height)
    start, end = extent(trace)
    length = (end - start) or 1e-6
    scale, name = unit(length)
    drawn = lanes(axes, trace, length, height) | _critical_path(axes, trace, start, scale)
    axes.set_xlabel(f"time since the first event ({name})")
    legend(made, drawn, [rank_colour(rank) for rank in range(ranks)])
    return made


def lanes_height(ranks: int) -> float:
    """Inches that the lanes of so many ranks need."""
    return ranks * min(0.55, max(0.16, 4.8 / ranks))


def lanes(
    axes: Axes,
    trace: Trace,
    length: float,
    height: float,
    timed: bool | None = None,
    slack: float = 1 / PIXELS,
) -> set[str]:
    """Draw bars and arrows on an axis of `length` seconds from the first event; returns what there is to see.

    `height`: of the axes, in inches. `timed`: whether time without a core is drawn; if not said, where the
    trace has processor times. `slack`: operations that overlap by no more than this part of the axis are
    drawn in one row.
    """
    ranks = trace.world_size
    start, _ = extent(trace)
    scale, _ = unit(length)
    timed = is_timed(trace) if timed is None else timed
    drawn = set()
    for rank, events in enumerate(by_rank(trace)):
        rows = tracks(events, MOST_TRACKS, slack * length)
        for row, track in enumerate(rows):
            found = merged([span for event in track for span in spans(event, timed)], length / PIXELS)
            bottom, full = rank + LANE - row * 2 * LANE / len(rows), 2 * LANE / len(rows)
            drawn |= _bars(axes, rank, found, bottom, full, start, scale, EDGED * length / PIXELS)
            _names(axes, track, bottom - full / 2, start, scale, length, full * height / ranks)
    drawn |= _arrows(axes, trace, start, scale, length)
    axes.set(xlim=(-0.005 * length / scale, 1.005 * length / scale), ylim=(ranks - 0.4, -0.6))
    every = -(-ranks // 32)
    axes.set_yticks(range(0, ranks, every), [f"rank {rank}" for rank in range(0, ranks, every)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return drawn


def _bars(
    axes: Axes,
    rank: int,
    found: list[Span],
    bottom: float,
    full: float,
    start: float,
    scale: float,
    edged: float,
) -> set[str]:
    """The spans of one track, each kind as one artist; returns the kinds that there are."""
    corners = {kind: [] for kind in KINDS}
    for begin, end, shares in found:
        low = bottom
        for kind in KINDS:
            share = shares.get(kind, 0.0)
            high = low - full * share
            if share > LEAST:
                left, right = (begin - start) / scale, (end - start) / scale
                corners[kind].append([(left, low), (left, high), (right, high), (right, low)])
            low = high
    for kind, boxes in corners.items():
        if boxes:
            how = look(kind, rank_colour(rank))
            edges = [how["linewidth"] * (box[2][0] - box[0][0] > edged / scale) for box in boxes]
            bars = PolyCollection(boxes, **how | {"linewidth": edges}, zorder=2)
            bars.set_gid(f"rank {rank}: {kind}")
            axes.add_collection(bars)
    return {kind for kind, boxes in corners.items() if boxes}


def _names(
    axes: Axes, track: list[Event], middle: float, start: float, scale: float, length: float, inches: float
) -> None:
    """What an operation is called, where its bars have room for it."""
    if inches < 0.16:
        return
    for event in track:
        said = event.label or event.verb
        for begin, end, shares in spans(event):
            room = (end - begin) / length * (WIDTH - 1)
            if "compute" not in shares and room > LETTER * (len(said) + 1):
                x = ((begin + end) / 2 - start) / scale
                name = axes.text(x, middle, said, ha="center", va="center", fontsize=8, zorder=6)
                halo = WAIT if "waiting" in shares else half_opaque(rank_colour(event.rank))
                name.set_path_effects([withStroke(linewidth=2, foreground=halo)])  # an arrow may cross it


def _arrows(axes: Axes, trace: Trace, start: float, scale: float, length: float) -> set[str]:
    ends, step = {}, 2 * length / scale / PIXELS  # arrows that lie on each other are drawn once
    for send, recv in trace.messages:
        there, here = (send.start - start) / scale, (recv.end - start) / scale
        same = (send.rank, recv.rank, round(there / step), round(here / step))
        ends[same] = (there, send.rank, here, recv.rank)
    if not ends:
        return set()
    left, source, right, to = np.array(list(ends.values())).T
    way = np.sign(to - source)
    y = source + way * LANE / 2
    thin = 0.7 if trace.world_size > 8 else 1.0
    style: dict[str, Any] = {
        "width": 0.012 * thin,
        "headwidth": 7,
        "headlength": 8,
        "headaxislength": 7,
        "minlength": 0,
    }
    arrows = axes.quiver(
        left,
        y,
        right - left,
        to - way * LANE - y,
        angles="xy",
        scale_units="xy",
        scale=1,
        units="inches",
        color="black",
        path_effects=[withStroke(linewidth=1, foreground="white")],  # rank 7 is black too
        zorder=5,
        **style,
    )
    arrows.set_gid("messages")
    axes.plot(left, y, "o", color="black", markersize=3 * thin, mec="white", mew=0.4, zorder=5)
    return {"message"}


def _critical_path(axes: Axes, trace: Trace, start: float, scale: float) -> set[str]:
    """A thick line below each operation that the end depended on; thin ones lead from rank to rank."""
    works, jumps = [], []
    before = None
    for event in trace.critical_path():
        y = event.rank + LANE + 0.07
        begin, end = (event.met - start) / scale, (event.end - start) / scale  # no end depends on waiting
        if before:
            begin = max(begin, before[0])
        if end - begin > 1e-9:
            works.append([(begin, y), (end, y)])
            jumps += [[before, (begin, y)]] if before else []
            before = (end, y)
    for lines, width, gid in (works, 2.5, "critical path"), (jumps, 1, "critical path, from rank to rank"):
        axes.add_collection(LineCollection(lines, linewidths=width, colors="black", zorder=1, gid=gid))
    return {"critical path"} if works else set()
