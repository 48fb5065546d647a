"""Time of an all-reduce against its size, algorithm by algorithm: predicted and measured. Lesson 06."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from labkit.figures.colours import RIM
from labkit.figures.style import DASHES, figure, in_style
from labkit.figures.units import size

MARKERS = "os^D"


@in_style
def algorithm_times(
    sizes: Sequence[int],
    predicted: Mapping[str, Sequence[float]],
    measured: Mapping[str, Sequence[float]],
    crossing: float,
    title: str,
) -> Figure:
    """Draw a line for what is predicted of each algorithm, markers for what was measured. Returns a Figure.

    `sizes`: bytes; `predicted` and `measured`: {name: seconds by size}; `crossing`: the bytes at which the
    best one of the last two changes.
    """
    made, axes = figure(title, width=8.0, height=3.8)
    axes.axvline(crossing, color=RIM, linewidth=1)
    for number, name in enumerate(predicted):
        look = {"color": "black", "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.3}
        marker = {"marker": MARKERS[number % len(MARKERS)], "markersize": 6, "markerfacecolor": "white"}
        axes.plot(sizes, [1e3 * t for t in predicted[name]], **look)
        axes.plot(sizes, [1e3 * t for t in measured[name]], linestyle="", color="black", **marker)
        axes.plot([], [], label=name, **look, **marker)
    axes.set(xscale="log", yscale="log", xlim=(sizes[0] / 2, sizes[-1] * 2))
    axes.set(xlabel="size of the tensor", ylabel="time of an all-reduce (ms)")
    edge = axes.get_xaxis_transform()
    most = max(max(times) for times in [*predicted.values(), *measured.values()])
    least = min(min(times) for times in [*predicted.values(), *measured.values()])
    axes.set_ylim(1e3 * least / 2, 1e3 * most * 1.5)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xticks(sizes, [size(one) for one in sizes])
    axes.minorticks_off()
    axes.text(sizes[0] * 0.6, 0.03, "here latency counts", transform=edge)
    axes.text(sizes[-1] * 1.7, 0.03, "here bytes count", transform=edge, ha="right")
    axes.legend(loc="upper left", title="lines: predicted, marks: measured")
    return made
