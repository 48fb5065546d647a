"""Time of a step against the number of buckets: predicted and measured. Lesson 13."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line


@in_style
def buckets(
    predicted: Mapping[int, float], measured: Mapping[int, float], best: float, title: str | None = None
) -> Figure:
    """Draw a line for what is predicted, marks for what was measured. Returns a Figure.

    `predicted` and `measured`: {number of buckets: seconds}; `best`: the number that the formula gives.
    """
    fastest = min(measured, key=measured.__getitem__)
    made, axes = figure(
        title or f"Fastest with {fastest} buckets; predicted {best:.1f}", width=7.0, height=3.4
    )
    axes.plot(list(predicted), [1e3 * s for s in predicted.values()], label="predicted", **line(0))
    look = {"linestyle": "", "marker": "o", "color": "black", "markersize": 7, "markerfacecolor": "white"}
    axes.plot(list(measured), [1e3 * s for s in measured.values()], label="measured", **look)
    axes.axvline(best, color=QUIET, linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="buckets", ylabel="backward pass and all-reduces (ms)")
    axes.set_ylim(0, 1.15e3 * max(*measured.values(), *predicted.values()))
    axes.set_xticks(list(measured), [str(k) for k in measured])
    axes.text(best, 0.03, " square root of T_b / o", transform=axes.get_xaxis_transform(), fontsize=9)
    axes.legend(loc="lower right")
    return made
