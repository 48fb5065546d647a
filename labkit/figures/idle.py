"""Who computes when, and how many do so at a time: what a split model leaves idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, RIM, WAIT, rank_colour
from labkit.figures.looks import EDGE
from labkit.figures.spans import by_rank, extent
from labkit.figures.style import figure, in_style
from labkit.figures.units import unit
from labkit.trace.event import COMPUTE

if TYPE_CHECKING:
    from labkit.trace import Trace

WIDTH = 9.0  # inches
BELOW = 1.2  # inches: the panel that counts


@in_style
def idle(trace: Trace, title: str | None = None) -> Figure:
    """Draw a lane per rank, coloured where it computes, and below how many ranks compute. Returns a Figure.

    What is no compute is idle, pale grey, be it waiting or communication; beside each lane stands the share
    of the time that the rank computes. A dashed line is the mean number of ranks that compute. `title`: if
    not given, that mean. First drawn in lesson 15.
    """
    ranks, (start, end) = trace.world_size, extent(trace)
    scale, name = unit((end - start) or 1e-6)
    length = ((end - start) or 1e-6) / scale
    times, counts = computing(trace)
    mean = sum(n * (b - a) for n, a, b in zip(counts, times, times[1:], strict=False)) / scale / length
    lanes = ranks * min(0.42, max(0.16, 4.2 / ranks))
    made, (above, below) = figure(
        title
        or f"{mean:.1f} of {ranks} ranks compute at a time: {1 - mean / ranks:.0%} of their time is idle",
        width=WIDTH,
        height=1.0 + lanes + BELOW,
        rows=2,
        sharex=True,
        height_ratios=[lanes, BELOW],
    )
    for rank, spans in enumerate(_computes(trace)):
        above.broken_barh([(0, length)], (rank - 0.36, 0.72), facecolor=WAIT, edgecolor=RIM, linewidth=EDGE)
        bars = [((a - start) / scale, (b - a) / scale) for a, b in spans]
        above.broken_barh(bars, (rank - 0.36, 0.72), facecolor=rank_colour(rank), linewidth=0)
        share = sum(width for _, width in bars) / length
        above.text(1.01 * length, rank, f"{share:.0%}", va="center", fontsize=9 if ranks <= 8 else 7)
    every = -(-ranks // 32)
    above.set_yticks(range(0, ranks, every), [f"rank {rank}" for rank in range(0, ranks, every)])
    above.set(xlim=(-0.005 * length, 1.06 * length), ylim=(ranks - 0.4, -0.6))
    above.tick_params(axis="both", length=0)
    above.spines[["left", "bottom"]].set_visible(False)
    below.fill_between([(t - start) / scale for t in times], [*counts, 0], step="post", color=QUIET, lw=0)
    below.axhline(mean, color="black", ls="--", lw=1, xmax=1.005 / 1.065)
    below.text(1.01 * length, mean, f"{mean:.1f}", va="center", fontsize=9)
    below.set(xlabel=f"time since the first event ({name})", ylabel="ranks at a time", ylim=(0, ranks))
    below.set_yticks([0, ranks])
    return made


def computing(trace: Trace) -> tuple[list[float], list[int]]:
    """When the number of computing ranks changes, and how many there are from each such time to the next.

    Times are seconds of the trace, from its first event to its last; there is one more of them than counts.
    """
    start, end = extent(trace)
    changes = {start: 0, end: 0}
    for spans in _computes(trace):
        for a, b in spans:
            changes[a] = changes.get(a, 0) + 1
            changes[b] = changes.get(b, 0) - 1
    times, counts, now = sorted(changes), [], 0
    for time in times[:-1]:
        now += changes[time]
        counts.append(now)
    return times, counts


def _computes(trace: Trace) -> list[list[tuple[float, float]]]:
    """Per rank the times at which it computes: starts and ends, those that touch as one."""
    found: list[list[tuple[float, float]]] = []
    for events in by_rank(trace):
        spans: list[tuple[float, float]] = []
        for event in events:
            if event.verb == COMPUTE and event.end > event.start:
                if spans and event.start <= spans[-1][1]:
                    spans[-1] = spans[-1][0], max(spans[-1][1], event.end)
                else:
                    spans.append((event.start, event.end))
        found.append(spans)
    return found
