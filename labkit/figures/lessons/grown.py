"""Loss over epochs: a batch that grows beside a rate that decays, and one that does not. Lesson 12."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, RIM
from labkit.figures.style import figure, in_style, line

Phase = tuple[int, Sequence[float]]
"""Its epochs, and the loss after each update."""


@in_style
def grown(runs: Mapping[str, Sequence[Phase]], grew: float, title: str | None = None) -> Figure:
    """Draw {name: phases, one after the other}; `grew`: the epoch at which ranks came. Returns a Figure.

    Three runs: the one that grows, what it is compared with, and one where nothing changes.
    """
    updates = {name: sum(len(losses) for _, losses in phases) for name, phases in runs.items()}
    (mine, few), (other, many), *_ = updates.items()
    finding = f"{few:,} updates ({mine}) end where {many:,} do ({other})"
    made, axes = figure(title or finding, width=8.0, height=3.6)
    pale = {"color": RIM, "linewidth": 5, "zorder": 1}  # so that one that equals it lies on it
    looks = [line(0) | {"zorder": 3}, pale, line(2) | {"linewidth": 0.8, "zorder": 2}]
    for (name, phases), look in zip(runs.items(), looks, strict=True):
        at, loss, epoch = [], [], 0
        for epochs, losses in phases:
            at.append(epoch + epochs * np.arange(1, len(losses) + 1) / len(losses))
            loss.append(np.asarray(losses))
            epoch += epochs
        axes.plot(np.concatenate(at), np.concatenate(loss), label=name, **look)
    axes.axvline(grew, color=QUIET, linewidth=1, linestyle=":")
    axes.text(grew, 0.97, " new ranks", transform=axes.get_xaxis_transform(), fontsize=9, va="top")
    axes.set(xlabel="epoch", ylabel="loss of all samples", yscale="log")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return made
