"""Lesson 03: shard gradients scatter around the whole one; their mean does not."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, RIM, rank_colour
from labkit.figures.style import figure, in_style

FLOOR = 1e-18
"""Where a distance of exactly 0 is drawn on the logarithmic axis."""
EVERY = 4
"""One weight in so many is drawn: enough for the shape of the cloud."""


@in_style
def split_gradient(
    whole: Sequence[float], shards: Sequence[Sequence[float]], means: Sequence[tuple[int, float, float]]
) -> Figure:
    """Two panels: a cloud per rank against the whole gradient, and distances for 1, 2, ... ranks.

    whole: P numbers; shards: P numbers per rank; means: (ranks, bound, distance) per split, as
    lesson 03 collects them, bound 1e-6 for float32 and 1e-12 for float64.
    """
    off = [_distance(shard, whole) for shard in shards]
    made, (left, right) = figure(
        f"Alone, a shard's gradient is {min(off):.0%} to {max(off):.0%} off; "
        "the mean of all is right to rounding",
        width=9,
        height=4,
        columns=2,
    )
    _cloud(left, whole, shards)
    _distances(right, off, means)
    return made


def _distance(found: Sequence[float], expected: Sequence[float]) -> float:
    norm = sum(e * e for e in expected) ** 0.5
    return sum((f - e) ** 2 for f, e in zip(found, expected, strict=True)) ** 0.5 / norm


def _cloud(axes: Axes, whole: Sequence[float], shards: Sequence[Sequence[float]]) -> None:
    x = whole[::EVERY]
    dots: dict[str, Any] = {"marker": ".", "ls": "", "mew": 0}
    for rank, shard in enumerate(shards):
        axes.plot(x, shard[::EVERY], ms=5, alpha=0.7, color=rank_colour(rank), label=f"rank {rank}", **dots)
    mean = [sum(values) / len(shards) for values in zip(*shards, strict=True)]
    axes.plot(x, mean[::EVERY], ms=3.5, color="black", label=f"mean of the {len(shards)}", **dots)
    axes.set(xlabel="gradient on all samples, per weight", ylabel="gradient on one shard, per weight")
    axes.locator_params(nbins=5)
    axes.legend(markerscale=3, fontsize=9, handletextpad=0.1, loc="lower right", frameon=False)


def _distances(axes: Axes, off: Sequence[float], means: Sequence[tuple[int, float, float]]) -> None:
    worlds = sorted({n for n, _, _ in means})
    last = worlds[-1]
    for rank, distance in enumerate(off):
        axes.plot(last + (rank - (len(off) - 1) / 2) * 0.12, distance, "o", color=rank_colour(rank), ms=5.5)
    axes.annotate("each shard alone", (last - 0.3, max(off)), ha="right", va="center", fontsize=10)
    for bound, marker, name in (1e-6, "s", "float32"), (1e-12, "D", "float64"):
        axes.axhline(bound, color=RIM, lw=1.5, zorder=0)
        axes.text(worlds[0] - 0.35, bound * 2.5, f"asserted: below {bound:g}", fontsize=9, color=QUIET)
        points = [(n, max(error, FLOOR)) for n, b, error in means if b == bound]
        axes.plot(*zip(*points, strict=True), marker, color="black", ms=5.5, mfc="none")
        second = max(error for n, error in points if n == worlds[1])
        axes.annotate(f"mean, {name}", (worlds[1] - 0.12, second), ha="right", va="center", fontsize=10)
    axes.set_yscale("log")
    axes.set(xlabel="ranks", ylabel="norm of difference / norm", xticks=worlds)
    axes.set(xlim=(worlds[0] - 0.4, last + 0.4), ylim=(FLOOR / 5, 30))
    axes.set_yticks([1, 1e-6, 1e-12, FLOOR], ["1", "$10^{-6}$", "$10^{-12}$", "0"])
    axes.minorticks_off()
