"""Latency against the time-out of a batch, and against what is answered per second. Lesson 23."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line_of_many

PERCENTILES = (50, 99)


@in_style
def latency_by_timeout(
    measured: Mapping[float, Sequence[float]],
    simulated: Mapping[float, Sequence[float]],
    rates: Mapping[float, float],
    best: float,
    title: str,
) -> Figure:
    """Draw p50 and p99 over the time-out, and over the requests answered per second. Returns a Figure.

    `measured` and `simulated`: {time-out: latencies of all requests}, marks and lines; `rates`: {time-out:
    requests answered per second}, measured; `best`: the time-out that was predicted. All in seconds.
    """
    made, (left, right) = figure(title, width=8.0, height=3.4, columns=2, sharey=True)
    for number, percentile in enumerate(PERCENTILES):
        look = line_of_many(number)
        runs = [(1e3 * t, np.percentile(latencies, percentile)) for t, latencies in sorted(simulated.items())]
        left.plot(*zip(*runs, strict=True), **look, label=f"p{percentile}, simulated")
        marks = {"marker": "os"[number], "ls": "none", "color": look["color"], "mfc": "white"}
        times = sorted(measured)
        seen = [np.percentile(measured[t], percentile) for t in times]
        left.plot([1e3 * t for t in times], seen, **marks, label=f"p{percentile}, on ranks")
        right.plot([rates[t] for t in times], seen, **marks | {"ls": ":"})
    for t in (min(measured), max(measured)):
        right.annotate(
            f"{1e3 * t:.0f} ms",
            (rates[t], np.percentile(measured[t], PERCENTILES[-1])),
            xytext=(6, -2),
            textcoords="offset points",
            fontsize=9,
        )
    left.axvline(1e3 * best, color=QUIET, linestyle=":", label="best, predicted")
    left.set(xscale="log", xlabel="time-out (ms)", ylabel="latency (s)", ylim=(0, None))
    ticks = sorted(measured)
    left.set_xticks([1e3 * t for t in ticks], [f"{1e3 * t:.0f}" for t in ticks])
    left.minorticks_off()
    left.legend(loc="lower center", fontsize=8, ncols=2)
    right.set(xlabel="answered per second")
    return made
