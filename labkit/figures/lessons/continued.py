"""Loss over steps of a training that lost a rank, and went on from its last save. Lesson 22."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, RIM
from labkit.figures.looks import HATCHED
from labkit.figures.style import figure, in_style, line


@in_style
def continued(
    uninterrupted: Sequence[float],
    before: Sequence[float],
    after: Sequence[float],
    died: int,
    title: str | None = None,
) -> Figure:
    """Draw the loss of each step: `before` the save, and `after` it on other ranks. Returns a Figure.

    `died`: the steps that were done when a rank died; those since the save are done again.
    """
    saved, steps = len(before), range(1, len(uninterrupted) + 1)
    finding = f"Killed after step {died}, resumed from step {saved}: the same curve"
    made, axes = figure(title or finding, width=8.0, height=3.4)
    axes.axvspan(saved, died, label="done again", **HATCHED)
    pale = {"color": RIM, "linewidth": 6, "zorder": 1}
    axes.plot(steps, uninterrupted, label="never interrupted", **pale)
    axes.plot(steps[:saved], before, label="before the save", **line(0) | {"zorder": 2})
    axes.plot(steps[saved:], after, label="one rank fewer", **line(1) | {"zorder": 2})
    axes.axvline(died, color=QUIET, linewidth=1, linestyle=":")
    axes.text(died, 0.97, " a rank dies", transform=axes.get_xaxis_transform(), fontsize=9, va="top")
    axes.set(xlabel="step", ylabel="loss of the batch")
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return made
