"""What goes along the axes of a mesh of two by two, inside hosts and between them. Lesson 19."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from labkit.figures.colours import QUIET, RIM, ink, rank_colour
from labkit.figures.style import figure, in_style
from labkit.figures.units import size

Traffic = Mapping[str, float]
WIDEST = 14.0
"""Points, of the line for the most bytes."""


@in_style
def mesh_traffic(placements: Mapping[str, Traffic], title: str) -> Figure:
    """Draw a panel for each placement, with two hosts of two ranks. Returns a Figure.

    `placements`: {name: {axis between hosts: bytes of a rank, axis inside: bytes}}. Black lines cross the
    network, grey ones stay in a host; a line is as wide as its bytes are many.
    """
    made, panels = figure(title, width=7.5, height=3.1, columns=len(placements), squeeze=False)
    most = max(nbytes for traffic in placements.values() for nbytes in traffic.values())
    for axes, (name, traffic) in zip(panels[0], placements.items(), strict=True):
        _draw(axes, traffic, most)
        axes.set_title(name, loc="center", fontsize=11)
        axes.set(xlim=(-0.5, 1.5), ylim=(-0.4, 1.75), aspect="equal")
        axes.axis("off")
    made.supxlabel("box: a host; bytes that a rank sends in a step along each axis", fontsize=9)
    return made


def _draw(axes: Axes, traffic: Traffic, most: float) -> None:
    (between, crossing), (inside, staying) = traffic.items()
    for host in 0, 1:
        box = FancyBboxPatch((0, 1 - host), 1, 0, "round,pad=0.28", facecolor="white", edgecolor=QUIET)
        axes.add_patch(box)
        axes.plot([0, 1], [1 - host] * 2, color=RIM, linewidth=WIDEST * staying / most, zorder=1)
        axes.plot([host] * 2, [0, 1], color="black", linewidth=WIDEST * crossing / most, zorder=1)
    for rank in range(4):
        place, colour = (rank % 2, 1 - rank // 2), rank_colour(rank)
        axes.scatter(*place, s=330, facecolor=colour, edgecolor="black", zorder=3)
        axes.text(*place, str(rank), color=ink(colour), ha="center", va="center", zorder=4)
    axes.text(0.5, 1.4, f"{inside}: {size(staying)}", ha="center", fontsize=9)
    axes.text(0.5, 0.5, f"{between}:\n{size(crossing)}", ha="center", va="center", fontsize=9)
