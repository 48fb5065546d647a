"""The time of a message against its size, with the fit and its two regimes. First drawn in lesson 01."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.colours import RANK_COLOURS, RIM
from labkit.figures.style import figure, in_style
from labkit.figures.units import size


@in_style
def latency_bandwidth(sizes: Sequence[float], seconds: Sequence[float], alpha: float, beta: float) -> Figure:
    """Draw measured times, the fit alpha + n * beta and the two lines that it joins.

    `sizes` in bytes, `seconds` measured, `alpha` in seconds, `beta` in seconds per byte. Returns a Figure.
    """
    half = alpha / beta
    finding = (
        f"Below {size(half)} latency rules ({alpha * 1e6:.0f} µs), "
        f"above it bandwidth ({1e-9 / beta:.1f} GB/s)"
    )
    made, axes = figure(finding, height=3.6)
    n = np.geomspace(min(sizes), max(sizes), 200)
    fitted = alpha + n * beta
    axes.axvline(half, color=RIM, linewidth=1)
    axes.plot(n, np.full_like(n, alpha * 1e6), ":", color="black", linewidth=1)
    axes.plot(n, n * beta * 1e6, ":", color="black", linewidth=1)
    axes.plot(n, fitted * 1e6, color="black", linewidth=1.5, label="fit: alpha + n · beta")
    axes.plot(
        sizes, np.array(seconds) * 1e6, "o", color=RANK_COLOURS[0], label="measured, rank 0 to 1", zorder=3
    )
    axes.set(xscale="log", yscale="log", xlim=(n[0] * 0.7, n[-1] * 1.5))
    low = min(*seconds, alpha) * 1e6 / 3
    axes.set_ylim(low, max(seconds) * 1e6 * 2)
    axes.set_xlabel("size of the message n (bytes)")
    axes.set_ylabel("time of a message (µs)")
    axes.text(n[0] * 1.3, low * 1.2, "here latency counts: alpha", va="bottom")
    axes.text(n[-1] * 1.3, low * 1.2, "here bytes count: n · beta", va="bottom", ha="right")
    axes.legend(loc="upper left")
    return made
