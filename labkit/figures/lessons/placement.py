"""Which messages of a ring cross the network, for several ways to place the ranks. Drawn in lesson 24."""

from collections.abc import Mapping, Sequence
from math import cos, pi, sin

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, RIM, ink
from labkit.figures.style import figure, in_style

HOSTS = ("white", QUIET, RIM, "black")
"""No colours: a colour is a rank's. They come again from host 4 on."""


@in_style
def placement(title: str, ways: Mapping[str, Sequence[int]]) -> Figure:
    """Draw a ring of ranks for each way to place them.

    `title` states the finding. `ways` maps the name of a way to the host of every rank: its number, from
    0. Returns a Figure.
    """
    made, panels = figure(title, height=3.6, columns=len(ways), squeeze=False)
    for axes, (name, hosts) in zip(panels[0], ways.items(), strict=True):
        crossing = sum(_draw(axes, hosts, rank) for rank in range(len(hosts)))
        axes.set_title(f"{name}: {crossing} of {len(hosts)} messages cross", loc="center", fontsize=11)
        axes.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal")
        axes.axis("off")
    made.supxlabel(
        "number: rank; fill: its host; black arrow: crosses the network, grey: stays in a host", fontsize=9
    )
    return made


def _draw(axes: Axes, hosts: Sequence[int], rank: int) -> bool:
    """One rank and its message to the next; whether that crosses."""
    here, there = _point(rank, len(hosts)), _point(rank + 1, len(hosts))
    crosses = hosts[rank] != hosts[(rank + 1) % len(hosts)]
    look = {"color": "black" if crosses else RIM, "linewidth": 2.5, "arrowstyle": "-|>"}
    axes.annotate("", there, here, arrowprops=look | {"shrinkA": 13, "shrinkB": 13, "mutation_scale": 14})
    fill = HOSTS[hosts[rank] % len(HOSTS)]
    axes.scatter(*here, s=430, facecolor=fill, edgecolor="black", zorder=3)
    axes.text(*here, str(rank), color=ink(fill), ha="center", va="center", zorder=4)
    return crosses


def _point(rank: int, size: int) -> tuple[float, float]:
    angle = pi / 2 - 2 * pi * rank / size
    return 1.2 * cos(angle), 1.2 * sin(angle)
