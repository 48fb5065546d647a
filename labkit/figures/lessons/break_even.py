"""Epoch time against bandwidth: what was predicted, what was measured, and one process. Lesson 05."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.style import COMMUNICATION_ALPHA, QUIET, WAIT, figure, in_style

Bounded = tuple[float, float, float]
"""A time, and the bounds of its interval: (value, low, high) in seconds."""


@in_style
def break_even(
    predicted: Mapping[float, Bounded],
    measured: Mapping[float, Bounded],
    alone: Bounded,
    crossings: tuple[float, float],
    title: str | None = None,
) -> Figure:
    """Draw epoch times with their intervals. Returns a Figure.

    `predicted` and `measured`: {Mbit/s: (value, low, high)}; `alone`: the same for one process;
    `crossings`: (predicted, measured) bandwidth in Mbit/s at which R ranks take as long as one.
    """
    expected, found = crossings
    finding = f"It pays from {found:.0f} Mbit/s on; predicted were {expected:.0f}"
    made, axes = figure(title or finding, width=8.0, height=3.8)
    x, curve = list(predicted), list(zip(*predicted.values(), strict=True))
    axes.axhspan(*alone[1:], color=WAIT, linewidth=0, zorder=0)
    axes.axhline(alone[0], color=QUIET, linewidth=1.5, label="one process, measured")
    axes.fill_between(x, curve[1], curve[2], color="black", alpha=COMMUNICATION_ALPHA / 4, linewidth=0)
    axes.plot(x, curve[0], color="black", linewidth=1.5, label="all ranks, predicted")
    points = list(zip(*measured.values(), strict=True))
    below = [value - low for value, low in zip(points[0], points[1], strict=True)]
    above = [high - value for value, high in zip(points[0], points[2], strict=True)]
    look = {"fmt": "o", "color": "black", "markersize": 7, "capsize": 4, "zorder": 3}
    axes.errorbar(list(measured), points[0], yerr=(below, above), label="all ranks, measured", **look)
    axes.axvline(expected, color="black", linewidth=1, linestyle=":")
    axes.set(xscale="log", xlabel="bandwidth of a link (Mbit/s)", ylabel="time of an epoch (s)")
    axes.set(xlim=(x[0], x[-1]), ylim=(0, None))
    ticks = sorted(round(w) for w in measured)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.text(expected, 0.02, " break-even, predicted", transform=axes.get_xaxis_transform(), fontsize=9)
    axes.legend(loc="lower left")
    return made
