"""Speed-up against the number of ranks, in several ways to add them: predicted and measured. Lesson 05."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line

MARKERS = "os^D"


@in_style
def scaling(
    ranks: Sequence[int],
    predicted: Mapping[str, Sequence[float]],
    measured: Mapping[str, Sequence[float]],
    title: str | None = None,
) -> Figure:
    """Draw a line for what is predicted of each way, marks for what was measured. Returns a Figure.

    `predicted` and `measured`: {name of the way: speed-up by number of ranks}, with the same names.
    """
    ends = ", ".join(f"{name} scaling {speeds[-1]:.1f}" for name, speeds in measured.items())
    finding = f"Speed-up with {ranks[-1]} ranks: {ends}"
    made, axes = figure(title or finding, width=7.0, height=3.6)
    axes.plot(ranks, ranks, color=QUIET, linewidth=1, linestyle=":")
    axes.text(
        ranks[-1], ranks[-1], "without communication ", ha="right", va="bottom", color=QUIET, fontsize=9
    )
    axes.axhline(1, color=QUIET, linewidth=1)
    for number, (name, speeds) in enumerate(predicted.items()):
        marker = {"marker": MARKERS[number], "markersize": 7, "markerfacecolor": "white"}
        axes.plot(ranks, speeds, **line(number))
        axes.plot(ranks, measured[name], linestyle="", color=line(number)["color"], **marker)
        axes.plot([], [], label=f"{name} scaling", **line(number), **marker)
    axes.set(xlabel="ranks", ylabel="speed-up over one process", ylim=(0, 1.1 * ranks[-1]))
    axes.set_xticks(ranks)
    axes.legend(loc="upper left", title="lines: predicted, marks: measured")
    return made
