"""Which algorithm is the fastest, for so many ranks and bytes. Lesson 07."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from labkit.figures.colours import RIM
from labkit.figures.style import figure, in_style
from labkit.figures.units import size

FILLS = (RIM, "white", "black")
"""No colours: a colour is a rank's. Neighbours have a contrast of 3 to 1, on a dark page too."""


@in_style
def fastest_map(
    ranks: Sequence[int], sizes: Sequence[int], found: Sequence[Sequence[str]], title: str
) -> Figure:
    """Draw a cell for each number of ranks and size of the tensor, filled by the algorithm's name.

    `found[s][r]` is the name for sizes[s] bytes on ranks[r] ranks, of at most three. Returns a Figure.
    """
    names = sorted({name for row in found for name in row})
    numbers = np.array([[names.index(name) for name in row] for row in found])
    made, axes = figure(title, width=8.0, height=3.4)
    fills = ListedColormap(FILLS[: len(names)])
    axes.spines[:].set_visible(True)
    axes.pcolormesh(numbers, cmap=fills, vmin=-0.5, vmax=len(names) - 0.5)
    named = [place for place, count in enumerate(ranks) if count & (count - 1) == 0]
    axes.set_xticks([place + 0.5 for place in named], [str(ranks[place]) for place in named])
    axes.set_yticks(np.arange(0, len(sizes), 2) + 0.5, [size(one) for one in sizes[::2]])
    axes.set(xlabel="ranks", ylabel="size of the tensor")
    patches = [
        Patch(facecolor=fill, edgecolor="black", label=name) for name, fill in zip(names, FILLS, strict=False)
    ]
    axes.legend(handles=patches, loc="center left", bbox_to_anchor=(1.0, 0.5), title="fastest")
    return made
