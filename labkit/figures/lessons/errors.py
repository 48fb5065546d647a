"""Distance from the minimum, update by update: what converges, and what does not. Lesson 10."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line

FLOOR = 1e-8
"""What is smaller than float32 can tell from zero is drawn here."""


@in_style
def errors_by_update(runs: Mapping[str, Sequence[float]], title: str | None = None) -> Figure:
    """Draw {name: error after each update} on a logarithmic scale, the best run first. Returns a Figure.

    `title`: if not given, which runs end further from the minimum than they began.
    """
    lost = [name for name, errors in runs.items() if not errors[-1] < errors[0]]
    finding = f"Only {', '.join(lost)} leaves the minimum" if lost else "All runs come to the minimum"
    made, axes = figure(title or finding, width=8.0, height=3.2)
    for number, (name, errors) in enumerate(sorted(runs.items(), key=lambda item: item[1][-1])):
        axes.plot(range(1, len(errors) + 1), np.maximum(errors, FLOOR), **line(number), label=name)
    axes.set(xlabel="updates", ylabel="distance from the minimum", yscale="log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=10)
    return made
