"""Error of a sum in 16 bits against the number of ranks: predicted and measured. Lesson 21."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import GREYS
from labkit.figures.style import figure, in_style, line


@in_style
def rounding(
    ranks: Sequence[int],
    predicted: Mapping[str, Sequence[float]],
    measured: Mapping[str, Sequence[float]],
    title: str | None = None,
) -> Figure:
    """Draw {order: relative error for each number of ranks}, lines and marks. Returns a Figure."""
    (one, first), (other, last) = ((name, errors[-1]) for name, errors in measured.items())
    finding = f"With {ranks[-1]} ranks the {one} errs by {first:.1%}, the {other} by {last:.1%}"
    made, axes = figure(title or finding, width=7.0, height=3.4)
    for number, (name, errors) in enumerate(predicted.items()):
        axes.plot(ranks, errors, label=f"{name}, predicted", **line(number))
        look = {"linestyle": "", "marker": "os"[number], "markersize": 7, "markerfacecolor": "white"}
        axes.plot(ranks, measured[name], label=f"{name}, measured", color=GREYS[number], **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(list(ranks), [str(count) for count in ranks])
    least, most = min(map(min, measured.values())), max(map(max, measured.values()))
    marks = [mark for mark in (0.001 * 2.0**n for n in range(-12, 10)) if least / 1.5 < mark < 1.5 * most]
    axes.set_yticks(marks, [f"{100 * mark:g}" for mark in marks])
    axes.set(xlabel="ranks", ylabel="error of the sum (%)")
    axes.legend(loc="upper left")
    return made
