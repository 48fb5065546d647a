"""The share of a year that is lost against the time between two saves. Lesson 22."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line


@in_style
def save_interval(
    minutes: Sequence[float],
    predicted: Mapping[str, Sequence[float]],
    simulated: Sequence[float],
    best: float,
    title: str | None = None,
) -> Figure:
    """Draw shares of lost time over minutes between saves, lines and marks. Returns a Figure.

    `best`: the minutes that a formula names.
    """
    least, most = min(simulated), max(simulated)
    finding = f"A save every {best:.0f} minutes loses {least:.1%}; the worst of these {most:.0%}"
    made, axes = figure(title or finding, width=7.0, height=3.4)
    for number, (name, lost) in enumerate(predicted.items()):
        axes.plot(minutes, [100 * share for share in lost], label=name, **line(number))
    look = {"linestyle": "", "marker": "o", "color": "black", "markersize": 5, "markerfacecolor": "white"}
    axes.plot(minutes, [100 * share for share in simulated], label="simulated", **look)
    axes.axvline(best, color=QUIET, linewidth=1, linestyle=":")
    axes.text(best, 0.05, " best", transform=axes.get_xaxis_transform(), fontsize=9)
    marks = [mark for mark in (5, 10, 20, 40, 80, 160, 320, 640, 1280) if minutes[0] <= mark <= minutes[-1]]
    axes.set_xscale("log")
    axes.set_xticks(marks, [str(mark) for mark in marks])
    axes.minorticks_off()
    axes.set(xlabel="minutes between two saves", ylabel="time lost (%)", ylim=(0, 110 * most))
    axes.legend(loc="upper center", bbox_to_anchor=(0.62, 1))
    return made
