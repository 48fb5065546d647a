"""Loss and accuracy of several runs: the first is the one that the others are compared with."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.figures.colours import RIM
from labkit.figures.style import figure, in_style, line_of_many

APART = 0.17
"""Inches between the names of two curves, at least."""


Runs = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""{name: (losses, accuracies)}"""


@in_style
def curves(runs: Runs, title: str | None = None) -> Figure:
    """Draw the loss, and beside it the accuracy where there is one. Returns a Figure.

    `runs`: {name: (losses, accuracies)}, a loss per step and an accuracy, 0 to 1, per epoch; either may
    be empty. The first run is wide and grey, so that one that equals it lies on it. `title`: if not
    given, which run ends with the lowest loss, and how accurate it is.
    """
    columns = [column for column in (0, 1) if any(len(run[column]) for run in runs.values())] or [0]
    height = max(3.2, 1.0 + 0.2 * len(runs))
    size: dict[str, Any] = {
        "width": 1.5 + 3.7 * len(columns),
        "height": height,
        "columns": len(columns),
        "squeeze": False,
    }
    made, panels = figure(title or _finding(runs), **size)
    for axes, column in zip(panels[0], columns, strict=True):
        ends = {}
        for number, (name, run) in enumerate(runs.items()):
            values = [100 * value for value in run[1]] if column else list(run[0])
            if values:
                axes.plot(range(1, len(values) + 1), values, label=name, **_line(number))
                ends[name] = (len(values), values[-1])
        if column:
            axes.set(xlabel="epoch", ylabel="held-out, % right")
        else:
            is_positive = all(value > 0 for run in runs.values() for value in run[0])
            axes.set(xlabel="step", ylabel="loss", yscale="log" if is_positive else "linear")
    _names(axes, ends, APART / (height - 1))
    return made


def _line(number: int) -> dict[str, Any]:
    if number == 0:
        return {"color": RIM, "lw": 6, "solid_capstyle": "round", "zorder": 1}
    return line_of_many(number - 1)


def _names(axes: Axes, ends: Mapping[str, tuple[int, float]], apart: float) -> None:
    """Beside the panel the name of each curve, as near to its end as the others leave room."""
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # what comes now lies outside of them
    to_share = axes.transData + axes.transAxes.inverted()
    shares = {name: to_share.transform(end)[1] for name, end in ends.items()}
    below = None
    places = {}
    for name in sorted(shares, key=shares.get):
        below = shares[name] if below is None else max(shares[name], below + apart)
        places[name] = below
    too_high = max(0.0, max(places.values(), default=0) - 1.0)
    for line in axes.get_lines()[: len(ends)]:
        name = str(line.get_label())
        x, y = 1.04, places[name] - too_high
        width = min(line.get_linewidth(), 4)
        look: dict[str, Any] = {"color": line.get_color(), "ls": line.get_linestyle(), "lw": width}
        axes.plot([x, x + 0.1], [y, y], transform=axes.transAxes, clip_on=False, **look)
        axes.text(x + 0.12, y, name, transform=axes.transAxes, va="center", fontsize=9)


def _finding(runs: Runs) -> str:
    ends = {name: run[0][-1] for name, run in runs.items() if len(run[0])}
    if not ends:
        return "Accuracy of the runs"
    best = min(ends, key=ends.get)
    accuracies = runs[best][1]
    right = f", {100 * accuracies[-1]:.1f} % right" if len(accuracies) else ""
    return f"{best[0].upper()}{best[1:]} ends with the lowest loss: {ends[best]:.3g}{right}"
