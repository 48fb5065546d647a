"""Where the time of a step goes: compute, communication and waiting, stacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, rank_colour
from labkit.figures.looks import legend, look
from labkit.figures.spans import KINDS, extent, time_spent
from labkit.figures.style import figure, in_style
from labkit.figures.units import duration, unit

if TYPE_CHECKING:
    from labkit.trace import Trace


@in_style
def step_time(traces: Mapping[str, Trace], steps: int = 1, title: str | None = None) -> Figure:
    """Draw a bar per rank of one trace, or per run of several. Returns a Figure.

    `traces`: a Trace, or {name of the run: Trace}; a run's bar is the mean over its ranks. `steps`: how
    many steps of training a trace holds; the times are those of one. Communication that is hidden behind
    compute counts as compute. `title`: if not given, how much of the time is not compute.
    """
    if not isinstance(traces, Mapping):
        bars = {f"rank {rank}": spent for rank, spent in enumerate(time_spent(traces))}
        colours = [rank_colour(rank) for rank in range(traces.world_size)]
    else:
        bars = {name: _mean(time_spent(trace)) for name, trace in traces.items()}
        colours = [QUIET] * len(bars)
    longest = max((sum(spent.values()) for spent in bars.values()), default=0) / steps
    scale, name = unit(longest)
    height = 1.35 + len(bars) * min(0.5, max(0.16, 4.8 / len(bars)))
    made, axes = figure(title or _finding(traces, bars, steps), height=height, width=8)
    drawn = set()
    for row, (spent, colour) in enumerate(zip(bars.values(), colours, strict=True)):
        left = 0.0
        for kind in KINDS:
            seconds = spent[kind] / steps / scale
            if seconds > 0.001 * longest / scale:
                axes.barh(row, seconds, left=left, height=0.72, **look(kind, colour))
                drawn.add(kind)
            left += seconds
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set(
        ylim=(len(bars) - 0.4, -0.6), xlabel=f"time of a step ({name})" if steps > 1 else f"time ({name})"
    )
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    legend(made, drawn, colours)
    return made


def _mean(ranks: list[dict[str, float]]) -> dict[str, float]:
    return {kind: sum(spent[kind] for spent in ranks) / len(ranks) for kind in KINDS}


def _finding(traces: Trace | Mapping[str, Trace], bars: Mapping[str, dict[str, float]], steps: int) -> str:
    if not isinstance(traces, Mapping):
        start, end = extent(traces)
        whole = (end - start) * len(bars)
        computed = sum(spent["compute"] for spent in bars.values())
        return f"Ranks compute {computed / whole:.0%} of the time" if whole else "Nothing was recorded"
    total = {name: sum(spent.values()) for name, spent in bars.items()}
    best = min(total, key=total.get)
    return f"Least time{' of a step' * (steps > 1)}: {best}, {duration(total[best] / steps)}"
