"""What a rank keeps for training, part by part, and what it was measured to need. Lesson 18."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.colours import GREYS, ink
from labkit.figures.style import figure, in_style


@in_style
def kept_state(
    predicted: Mapping[str, Mapping[str, float]], measured: Mapping[str, float], title: str
) -> Figure:
    """Draw a bar for each stage: {its name: {part: MB}}, and a mark where {its name: MB} was measured.

    A part has the same grey in every bar. Returns a Figure.
    """
    made, axes = figure(title, width=8.0, height=1.3 + 0.5 * len(predicted))
    greys = dict(
        zip(dict.fromkeys(part for parts in predicted.values() for part in parts), GREYS, strict=False)
    )
    for row, (name, parts) in enumerate(predicted.items()):
        left = 0.0
        for part, megabytes in parts.items():
            axes.barh(row, megabytes, left=left, height=0.7, color=greys[part], edgecolor="white")
            if megabytes > 0.04 * max(sum(p.values()) for p in predicted.values()):
                middle, colour = left + megabytes / 2, ink(greys[part])
                axes.text(middle, row, f"{megabytes:.2f}", color=colour, ha="center", va="center", fontsize=9)
            left += megabytes
        if name in measured:
            axes.plot([measured[name]] * 2, [row - 0.45, row + 0.45], color="black", linewidth=2.5)
    for part, grey in greys.items():
        axes.barh(0, 0, color=grey, label=part)
    axes.plot([], [], color="black", linewidth=2.5, label="measured")
    axes.set_yticks(range(len(predicted)), list(predicted))
    axes.set(ylim=(len(predicted) - 0.4, -0.6), xlabel="MB on each rank at the peak of a step")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    made.legend(loc="outside lower left", ncols=5, fontsize=9)
    return made
