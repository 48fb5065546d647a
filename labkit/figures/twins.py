"""Lesson 04: how far apart two runs drift that started one nudge apart."""

from labkit.figures.style import figure, in_style, rank_colour


@in_style
def twins(nudge, drift, labels):
    """Norm of the difference of the twins' weights, epoch by epoch, a line per rank.

    nudge: the distance at the start; drift: per rank, the distance after each epoch; labels: what
    each rank did, shortest drift and longest told apart by the colour of the rank.
    """
    made, axes = figure("A nudge stays a nudge, until the steps get too long", width=8, height=3.8)
    epochs = len(drift[0])
    for rank, (distances, label) in enumerate(zip(drift, labels, strict=True)):
        colour = rank_colour(rank)
        axes.plot(range(epochs + 1), [nudge, *distances], color=colour, lw=2, label=f"rank {rank}: {label}")
    axes.set(xlabel="epoch", ylabel="norm of the difference\nof the twins' weights", yscale="log")
    axes.set_xlim(0, epochs)
    handles, names = axes.get_legend_handles_labels()
    highest_first = sorted(range(len(drift)), key=lambda rank: -drift[rank][-1])
    axes.legend(
        [handles[r] for r in highest_first],
        [names[r] for r in highest_first],
        frameon=False,
        fontsize=10,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
    )
    return made
