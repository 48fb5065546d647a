"""How much is computed per second by so many workers: predicted and simulated. Lesson 08."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from labkit.figures.style import figure, in_style, line_of_many

MARKERS = "os^Dv"


@in_style
def throughput(
    workers: Sequence[int],
    predicted: Mapping[str, Sequence[float]],
    simulated: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw mini-batches per second against the number of workers. Returns a Figure.

    `predicted` is drawn as lines, `simulated` as marks: {name: seconds of a step, in which each worker takes
    one mini-batch, by the number of workers}. Both have the same names, which stand at the ends of the lines.
    """
    made, axes = figure(title, width=8.0, height=4.0)
    ends: dict[str, tuple[float, list[str]]] = {}
    for number, (name, seconds) in enumerate(predicted.items()):
        rates, marks = (np.divide(workers, times) for times in (seconds, simulated[name]))
        look = line_of_many(number)
        axes.plot(workers, rates, **look | {"linewidth": 1.3})
        axes.plot(workers, marks, MARKERS[number % len(MARKERS)], color=look["color"], mfc="white")
        ends.setdefault(f"{rates[-1]:.2g}", (rates[-1], []))[1].append(name)
    for end, names in ends.values():  # curves that end together have one text
        place = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate("\n".join(names), (workers[-1], end), **place)
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="mini-batches per second")
    axes.set_xticks(workers, list(map(str, workers)))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.minorticks_off()
    axes.text(0.02, 0.95, "lines: predicted, marks: simulated", transform=axes.transAxes, fontsize=9)
    return made
