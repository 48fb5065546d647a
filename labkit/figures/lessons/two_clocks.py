"""One training by two clocks: loss over gradients, and over time. Lesson 10."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line


@in_style
def two_clocks(runs: Mapping[str, Sequence[tuple[float, int, float]]], title: str | None = None) -> Figure:
    """Draw runs that used equally many gradients, {name: (seconds, gradients so far, loss) of each update}.

    On the left the gradients, on the right the time; returns a Figure. `title`: if not given, how many times
    as many gradients per second the fastest run uses as the slowest.
    """
    rates = {name: run[-1][1] / run[-1][0] for name, run in runs.items()}
    first, last = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    finding = f"{first.capitalize()}: {rates[first] / rates[last]:.1f} times the gradients per second"
    made, (by_gradient, by_time) = figure(title or finding, width=8.0, height=3.4, columns=2, sharey=True)
    for number, (name, run) in enumerate(sorted(runs.items(), key=lambda item: rates[item[0]])):
        seconds, gradients, losses = zip(*run, strict=True)
        by_gradient.plot(gradients, losses, **line(number), label=name)
        by_time.plot(seconds, losses, **line(number))
    by_gradient.set(xlabel="gradients", ylabel="loss", yscale="log")
    by_time.set(xlabel="time (s)")
    by_gradient.legend(loc="lower left", fontsize=9)
    return made
