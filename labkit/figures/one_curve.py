"""Lesson 04: one process and R ranks draw the same curve."""

from labkit.figures.style import figure, in_style


@in_style
def one_curve(one, ranks, one_accuracy, ranks_accuracy, world_size):
    """Loss per step and held-out accuracy per epoch, both runs on top of each other.

    one, ranks: the loss of every step; one_accuracy, ranks_accuracy: 0 to 1, after every epoch.
    Below the loss: the absolute difference of the two.
    """
    apart = [abs(a - b) for a, b in zip(one, ranks, strict=True)]
    made, axes = figure(
        f"{world_size} ranks and one process draw one curve: the largest difference is {max(apart):.1e}",
        width=8.5,
        height=4.2,
        rows=2,
        columns=2,
    )
    (loss, accuracy), (difference, accuracy_difference) = axes
    steps = range(1, len(one) + 1)
    epochs = range(1, len(one_accuracy) + 1)
    for panel, x, alone, together in (
        (loss, steps, one, ranks),
        (accuracy, epochs, [100 * a for a in one_accuracy], [100 * a for a in ranks_accuracy]),
    ):
        panel.plot(x, alone, color="0.8", lw=5, label="one process", solid_capstyle="round")
        panel.plot(x, together, color="black", lw=1, label=f"{world_size} ranks")
        panel.tick_params(labelbottom=False)
    loss.set(ylabel="loss", yscale="log")
    loss.legend(frameon=False, fontsize=10)
    accuracy.set(ylabel="held-out, % right")
    accuracy.axhline(95, color="0.6", lw=1, ls=":")
    difference.plot(steps, apart, color="black", lw=0.8)
    difference.set(xlabel="step", ylabel="difference of loss", ylim=(0, 1.3 * max(apart)))
    points = [100 * (a - b) for a, b in zip(ranks_accuracy, one_accuracy, strict=True)]
    accuracy_difference.plot(epochs, points, color="black", lw=0.8)
    accuracy_difference.set(xlabel="epoch", ylabel="difference, points", ylim=(-1, 1))
    return made
