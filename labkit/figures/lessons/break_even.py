"""Epoch time against bandwidth: what was predicted, what was measured, and one process. Lesson 05."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.looks import HATCHED
from labkit.figures.style import figure, in_style


@in_style
def break_even(
    predicted: Mapping[float, float],
    measured: Mapping[float, Sequence[float]],
    alone: Sequence[float],
    crossings: tuple[float, float],
    title: str | None = None,
) -> Figure:
    """Draw the epoch times of all ranks, and of one process. Returns a Figure.

    `predicted`: {Mbit/s: seconds}; `measured`: {Mbit/s: seconds of each run}, drawn as the fastest, and a bar
    up to the slowest; `alone`: seconds of each run of one process; `crossings`: the bandwidth in Mbit/s at
    which all ranks take as long as one, predicted and found.
    """
    expected, found = crossings
    finding = f"It pays from {found:.0f} Mbit/s on; predicted were {expected:.0f}"
    made, axes = figure(title or finding, width=8.0, height=3.8)
    axes.axhspan(*(1e3 * bound for bound in (min(alone), max(alone))), **HATCHED)
    axes.axhline(1e3 * min(alone), color=QUIET, linewidth=1.5, label="one process, measured")
    curve = [1e3 * seconds for seconds in predicted.values()]
    axes.plot(list(predicted), curve, color="black", linewidth=1.5, label="all ranks, predicted")
    points = [1e3 * min(runs) for runs in measured.values()]
    above = [1e3 * (max(runs) - min(runs)) for runs in measured.values()]
    look = {"fmt": "o", "color": "black", "markersize": 7, "capsize": 4, "zorder": 3}
    name = "all ranks, measured: fastest, and up to the slowest"
    axes.errorbar(list(measured), points, yerr=([0.0] * len(points), above), label=name, **look)
    axes.axvline(expected, color="black", linewidth=1, linestyle=":")
    axes.set(xscale="log", xlabel="bandwidth of a link (Mbit/s)", ylabel="time of an epoch (ms)")
    axes.set(xlim=(min(predicted), max(predicted)), ylim=(0, 1.3 * max(*curve, *points)))
    ticks = sorted(round(w) for w in measured)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.text(expected, 0.02, " break-even, predicted", transform=axes.get_xaxis_transform(), fontsize=9)
    axes.legend(loc="upper right")
    return made
