"""One training by two clocks: loss over updates, and over time. Lesson 10."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line


@in_style
def two_clocks(runs: Mapping[str, Sequence[tuple[float, float]]], title: str | None = None) -> Figure:
    """Draw two or more runs, {name: (seconds since its start, loss) of each update}. Returns a Figure.

    On the left the updates that all runs made, on the right the time that all took: beyond it there is
    nothing to compare. `title`: if not given, how often the fastest run updates in the time of the slowest.
    """
    rates = {name: len(run) / run[-1][0] for name, run in runs.items()}
    first, last = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    times = rates[first] / rates[last]
    finding = f"{first.capitalize()} makes {times:.0f} updates while {last} makes one"
    made, (by_update, by_time) = figure(title or finding, width=8.0, height=3.4, columns=2, sharey=True)
    updates = min(map(len, runs.values()))
    seconds = min(run[-1][0] for run in runs.values())
    for number, (name, run) in enumerate(sorted(runs.items(), key=lambda item: rates[item[0]])):
        by_update.plot(range(1, updates + 1), [loss for _, loss in run[:updates]], **line(number), label=name)
        inside = [point for point in run if point[0] <= seconds]
        by_time.plot(*zip(*inside, strict=True), **line(number))
    by_update.set(xlabel="updates", ylabel="loss", yscale="log")
    by_time.set(xlabel="time (s)")
    by_update.legend(loc="lower left", fontsize=9)
    return made
