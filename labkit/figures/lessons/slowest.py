"""What waiting for the slowest costs: the time of a step against the number of workers. Lesson 11."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.style import figure, in_style, line


@in_style
def slowest(
    workers: Sequence[int],
    means: Mapping[str, Sequence[float]],
    measured: Mapping[int, float],
    title: str | None = None,
) -> Figure:
    """Draw the mean time of a step for several distributions, as multiples of one worker's. Returns a Figure.

    `means`: {name: mean time of a step with so many `workers`}; `measured`: the same on ranks, {workers:
    time}. `title`: if not given, which distribution waits longest at the end.
    """
    most = max(means, key=lambda name: means[name][-1])
    finding = f"{workers[-1]:,} workers wait {means[most][-1]:.0f} times a gradient's mean time ({most})"
    made, axes = figure(title or finding, width=8.0, height=3.4)
    for number, (name, times) in enumerate(means.items()):
        axes.plot(workers, times, **line(number), label=f"{name}, simulated")
    axes.plot(list(measured), list(measured.values()), "o", color="black", mfc="white", label="on ranks")
    axes.set(xscale="log", xlabel="workers", ylabel="step time / gradient time", ylim=(0, None))
    axes.set_xticks(workers, [f"{n:,}" for n in workers])
    axes.minorticks_off()
    axes.legend(loc="upper left", fontsize=9)
    return made
