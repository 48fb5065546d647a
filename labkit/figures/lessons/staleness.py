"""How stale gradients are: their distribution, and which worker's they are. Lesson 10."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.colours import rank_colour
from labkit.figures.style import figure, in_style

MOST = 40
"""Bars of one picture: with more, each takes several values of staleness."""


@in_style
def staleness(histories: Mapping[str, Sequence[tuple[int, int]]], title: str | None = None) -> Figure:
    """Draw a histogram for each history, the part of every worker in its colour. Returns a Figure.

    `histories`: {name: (worker, staleness) of each update}, as `labkit.algorithms.serve` returns them. Drawn
    are the youngest 99.9 % of all gradients: one that a busy machine held up would squeeze the others.
    `title`: if not given, the mean of each history.
    """
    means = {name: np.mean([stale for _, stale in history]) for name, history in histories.items()}
    finding = "Mean staleness: " + ", ".join(f"{name} workers {mean:.2f}" for name, mean in means.items())
    made, rows = figure(
        title or finding, width=8.0, height=0.9 + 1.6 * len(histories),
        rows=len(histories), sharex=True, squeeze=False,
    )  # fmt: skip
    everything = [stale for history in histories.values() for _, stale in history]
    most = max(1, int(np.quantile(everything, 0.999)))
    width = -(-(most + 1) // MOST)
    edges = np.arange(0, most + 1 + width, width) - 0.5
    for axes, (name, history) in zip(rows[:, 0], histories.items(), strict=True):
        bottom = np.zeros(len(edges) - 1)
        for worker in sorted({worker for worker, _ in history}):
            found = np.histogram([stale for who, stale in history if who == worker], edges)[0]
            share, places = 100 * found / len(history), (edges[1:] + edges[:-1]) / 2
            look = {"color": rank_colour(worker), "edgecolor": "white", "linewidth": 0.4}
            axes.bar(places, share, 0.9 * width, bottom, **look, label=f"rank {worker}")
            bottom += share
        axes.axvline(means[name], color="black", linestyle=":", linewidth=1.5)
        axes.set_ylabel("gradients (%)")
        axes.text(1.0, 0.97, f"{name} workers", transform=axes.transAxes, ha="right", va="top")
        axes.text(means[name], 1.0, " mean", transform=axes.get_xaxis_transform(), va="bottom", fontsize=9)
    rows[-1, 0].set_xlabel("staleness (updates)")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    made.legend(handles[:8], labels[:8], loc="outside lower left", ncols=8, fontsize=9)
    return made
