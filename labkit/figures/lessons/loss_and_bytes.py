"""Loss against what a rank sent for it, a point for each way to send less. Lesson 14."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style


@in_style
def loss_and_bytes(
    runs: Mapping[str, tuple[float, float]], frequencies: Mapping[int, str], title: str | None = None
) -> Figure:
    """Draw {name: (bytes that a rank sent, loss in the end)}. Returns a Figure.

    `frequencies`: {steps between two synchronisations: name of the run}, joined by a line.
    """
    first, *_, last = (runs[name] for _, name in sorted(frequencies.items()))
    finding = (
        f"A {first[0] / last[0]:.0f}th of the bytes by rarer averages: loss {last[1]:.3f}, not {first[1]:.3f}"
    )
    made, axes = figure(title or finding, width=8.0, height=4.2)
    along = [runs[name] for _, name in sorted(frequencies.items())]
    axes.plot([b for b, _ in along], [loss for _, loss in along], color=QUIET, linewidth=1)
    for name, (sent, loss) in runs.items():
        axes.plot([sent], [loss], "o", color="black", markersize=6)
        on_the_line = name in frequencies.values()
        place: dict[str, Any] = {"xytext": (0, -16)} if on_the_line else {"xytext": (4, 5), "rotation": 20}
        axes.annotate(name, (sent, loss), textcoords="offset points", fontsize=9, **place)
    axes.set(xscale="log", yscale="log", xlabel="bytes that a rank sent in all", ylabel="loss in the end")
    low, high = min(b for b, _ in runs.values()), max(b for b, _ in runs.values())
    axes.set_xlim(low / 1.6, high * 6)
    return made
