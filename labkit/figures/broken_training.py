"""Lesson 04: loss curves of training with one thing forgotten, beside the right one."""

from labkit.figures.style import figure

COLOURS = ("#D55E00", "#CC79A7", "#56B4E9")


def broken_training(right, broken):
    """Mean loss per epoch of the right run and of broken ones, {name: losses per epoch}."""
    made, axes = figure("Only one of three mistakes shows in the training loss", width=8, height=3.6)
    epochs = range(1, len(right) + 1)
    axes.plot(epochs, right, color="0.8", lw=6, solid_capstyle="round", label="nothing forgotten")
    for colour, (name, losses) in zip(COLOURS, broken.items(), strict=False):
        axes.plot(epochs, losses, color=colour, lw=1.8, label=name)
    axes.set(xlabel="epoch", ylabel="loss, mean over steps and ranks", yscale="log")
    axes.legend(frameon=False, fontsize=10, loc="center left", bbox_to_anchor=(1, 0.5))
    return made
