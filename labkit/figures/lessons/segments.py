"""What is kept for the backward pass against the length of a segment: predicted and counted. Lesson 21."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line


@in_style
def segments(
    predicted: Mapping[float, float], counted: Mapping[int, float], whole: float, title: str | None = None
) -> Figure:
    """Draw a line for what is predicted, marks for what was counted. Returns a Figure.

    `predicted` and `counted`: {layers in a segment: tensors kept}; `whole`: those kept without segments.
    """
    best = min(counted, key=counted.__getitem__)
    finding = f"Segments of {best} layers keep {counted[best]:.0f} tensors in place of {whole:.0f}"
    made, axes = figure(title or finding, width=7.0, height=3.2)
    axes.plot(list(predicted), list(predicted.values()), label="predicted", **line(0))
    look = {"linestyle": "", "marker": "o", "color": "black", "markersize": 7, "markerfacecolor": "white"}
    axes.plot(list(counted), list(counted.values()), label="counted", **look)
    axes.axhline(whole, color=QUIET, linewidth=1, linestyle=":")
    axes.text(best, 1.02 * whole, "nothing computed again", ha="center", va="bottom", fontsize=9, color=QUIET)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(counted), [str(count) for count in counted])
    axes.set(xlabel="layers in a segment", ylabel="tensors kept at most")
    axes.set_ylim(0, 1.25 * max(whole, *counted.values()))
    axes.legend(loc="lower right")
    return made
