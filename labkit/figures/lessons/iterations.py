"""Iterations to a loss against the size of the batch: where more samples no longer help. Lesson 12."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line


@in_style
def iterations(
    measured: Mapping[int, float], least: float, critical: float, title: str | None = None
) -> Figure:
    """Draw {batch: iterations}, and least * (1 + critical / batch). Returns a Figure."""
    small, large = min(measured), max(measured)
    fewer = measured[small] / measured[large]
    finding = f"{large // small} times the batch needs {fewer:.0f} times fewer iterations"
    made, axes = figure(title or finding, width=7.0, height=3.6)
    batches = np.geomspace(small, large, 50)
    ideal = measured[small] * small / batches
    axes.plot(batches, ideal, label="half as many for twice the batch", **line(1))
    axes.plot(batches, least * (1 + critical / batches), label="least (1 + critical / B)", **line(0))
    look = {"linestyle": "", "marker": "o", "color": "black", "markersize": 7, "markerfacecolor": "white"}
    axes.plot(list(measured), list(measured.values()), label="measured", **look)
    axes.axvline(critical, color=QUIET, linewidth=1, linestyle=":")
    axes.text(critical, 0.03, " critical batch", transform=axes.get_xaxis_transform(), fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="batch B", ylabel="iterations")
    axes.set_ylim(least / 3, 1.5 * max(measured.values()))
    axes.set_xticks(list(measured), [str(batch) for batch in measured])
    axes.set_yticks([25 * 2**n for n in range(4)], [str(25 * 2**n) for n in range(4)])
    axes.minorticks_off()
    axes.legend(loc="upper right")
    return made
