"""How far a replica is from the mean of all, step by step. Lesson 14."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line


@in_style
def drift(runs: Mapping[int, Sequence[float]], title: str | None = None) -> Figure:
    """Draw {steps between two averages: distance before each of them, or none}. Returns a Figure."""
    largest = max(max(distances) for distances in runs.values())
    finding = f"Alone, replicas drift up to {largest:.2f} apart; an average brings them together"
    made, axes = figure(title or finding, width=8.0, height=3.2)
    for number, (steps, distances) in enumerate(sorted(runs.items(), reverse=True)):
        axes.plot(range(1, len(distances) + 1), distances, label=f"every {steps} steps", **line(number))
    axes.set(xlabel="step", ylabel="distance from the mean")
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="averaged")
    return made
