"""Lesson 04: loss curves of training with one thing forgotten, beside the right one."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import RIM
from labkit.figures.style import figure, in_style

LINES = ("-", "--", ":")  # no colours: those are the ranks'


@in_style
def broken_training(right: Sequence[float], broken: Mapping[str, Sequence[float]]) -> Figure:
    """Mean loss per epoch of the right run and of three broken ones, {name: losses per epoch}."""
    made, axes = figure("Only one of three mistakes stops the training", width=8, height=3.6)
    epochs = range(1, len(right) + 1)
    axes.plot(epochs, right, color=RIM, lw=6, solid_capstyle="round", label="nothing forgotten")
    for line, (name, losses) in zip(LINES, broken.items(), strict=True):
        axes.plot(epochs, losses, color="black", ls=line, lw=1.5, label=name)
    axes.set(xlabel="epoch", ylabel="loss, mean over steps and ranks", yscale="log")
    axes.legend(frameon=False, fontsize=10, loc="center left", bbox_to_anchor=(1, 0.5))
    return made
