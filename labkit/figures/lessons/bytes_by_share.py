"""Time of a step's communication against the share of rows that a batch touches. Lesson 09."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from labkit.figures.style import figure, in_style, line


@in_style
def bytes_by_share(shares: Sequence[float], seconds: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a line for each way: {its name: seconds for each of `shares`, 1 is dense}. Returns a Figure."""
    made, axes = figure(title, width=8.0, height=3.6)
    for number, (name, times) in enumerate(seconds.items()):
        axes.plot([100 * share for share in shares], [1e3 * t for t in times], label=name, **line(number))
    axes.set(xscale="log", yscale="log", xlabel="rows that a batch touches (%)", ylabel="time of a step (ms)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.invert_xaxis()
    axes.legend(loc="lower left")
    return made
