"""Gradients used per second against the number of backup workers: where the best is. Lesson 11."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line


@in_style
def backup_workers(
    backups: Sequence[int], rates: Mapping[str, Sequence[float]], title: str | None = None
) -> Figure:
    """Draw the rate (gradients used per second) of each of some models, its best marked. Returns a Figure.

    `rates`: {name: rate with so many `backups`}. `title`: if not given, where the best are.
    """
    best = {name: int(np.argmax(rate)) for name, rate in rates.items()}
    where = ", ".join(f"b = {backups[place]} ({name})" for name, place in best.items())
    finding = f"Most gradients per second with {where}"
    made, axes = figure(title or finding, width=8.0, height=3.2)
    for number, (name, rate) in enumerate(rates.items()):
        axes.plot(backups, rate, **line(number), label=name)
        place = best[name]
        axes.plot(backups[place], rate[place], **line(number), marker="o", markersize=8, mfc="white")
    axes.set(xlabel="backup workers b", ylabel="gradients used per second", ylim=(0, None))
    axes.legend(loc="lower right", title="a late worker")
    return made
