"""Loss against time and against bytes, and memory, of several strategies. Lesson 25."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET
from labkit.figures.style import figure, in_style, line_of_many

NOTHING = 10
"""Bytes: what a barrier sends. Of who sends no more there is no curve over bytes."""


@in_style
def strategies(
    losses: Mapping[str, Sequence[float]],
    seconds: Mapping[str, float],
    sent: Mapping[str, float],
    memory: Mapping[str, float],
    title: str,
) -> Figure:
    """Draw {name: loss of each step} over time and over bytes, and a bar of memory. Returns a Figure.

    `seconds` and `sent`: of one step, the bytes of the rank that sends most; `memory`: bytes of the fullest
    rank. All have the same names.
    """
    made, panels = figure(title, width=8.6, height=3.2, columns=3, squeeze=False)
    over_time, over_bytes, bars = panels[0]
    for number, (name, values) in enumerate(losses.items()):
        look = line_of_many(number) | {"linewidth": 1.5}
        steps = range(1, len(values) + 1)
        over_time.plot([step * seconds[name] for step in steps], values, label=name, **look)
        if sent[name] > NOTHING:
            over_bytes.plot([step * sent[name] for step in steps], values, **look)
        bars.barh(number, memory[name] / 1e3, height=0.7, color=QUIET)
    over_time.set(xscale="log", xlabel="seconds", ylabel="loss")
    over_bytes.set(xscale="log", xlabel="bytes sent by one rank")
    bars.set_yticks(range(len(losses)), list(losses))
    bars.tick_params(axis="y", length=0, labelsize=9)
    bars.set(ylim=(len(losses) - 0.4, -0.6), xlabel="kB on the fullest rank")
    made.legend(loc="outside lower left", ncols=5, fontsize=9)
    return made
