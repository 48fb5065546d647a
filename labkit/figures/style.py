"""The one style of every figure: fonts, sizes, lines, and what a notebook is given of it.

A figure is drawn as for a white page; `picture` makes one for a dark page of the same strokes.
"""

from base64 import b64encode
from collections.abc import Callable
from textwrap import fill
from typing import Any, cast

import matplotlib.pyplot as plt
import matplotlib.style
from IPython.display import display
from matplotlib.figure import Figure

from labkit.figures.colours import GREYS
from labkit.figures.picture import picture

DASHES = ("-", "--", ":", "-.")
LETTERS_PER_INCH = 10
"""Of a title, so that a long one is broken into lines."""
_STYLE = {
    "figure.dpi": 96,
    "savefig.dpi": 96,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

in_style = matplotlib.style.context(["default", _STYLE])
"""Decorates what draws: inside, nothing of the reader's own rcParams counts."""


class CourseFigure(Figure):
    """A figure that stays in style when it is drawn: matplotlib makes its tick labels only then."""

    draw = in_style(Figure.draw)
    savefig = in_style(Figure.savefig)
    page: Callable[[bytes], str] | None = None
    """HTML of its own that says the same, around a picture for where that is not shown."""

    def _ipython_display_(self) -> None:
        """Show it. Else IPython would prefer what matplotlib says of any figure to what is said here."""
        bundle, about = self._repr_mimebundle_()
        display(bundle, metadata=about, raw=True)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        """For a notebook: the picture, what is said of it where it cannot be seen, its colours in the dark.

        Where there is one, also the page that can be touched.
        """
        png, dark = picture([self], bbox_inches="tight")
        told = {"text/plain": description(self), "image/png": b64encode(png).decode()}
        if self.page:
            told["text/html"] = self.page(png)
        return told, {"image/png": {"alt": description(self), "dark": dark}}


def line(number: int) -> dict[str, Any]:
    """The look of one of up to four curves: each has a grey and a dash of its own."""
    return {"color": GREYS[number % 4], "linestyle": DASHES[number % 4], "linewidth": 1.5}


def line_of_many(number: int) -> dict[str, Any]:
    """The same for up to sixteen: four dashes in one grey, then in the next."""
    return line(number) | {"color": GREYS[number // 4 % 4]}


@in_style
def figure(
    title: str, *, width: float = 7.0, height: float = 3.0, rows: int = 1, columns: int = 1, **grid: Any
) -> tuple[CourseFigure, Any]:
    """A figure and its axes, or an array of them, in the course's style; the title states the finding.

    Sizes are in inches. What else is given goes to `Figure.subplots`.
    """
    size = (width, height)
    made = cast(CourseFigure, plt.figure(figsize=size, layout="constrained", FigureClass=CourseFigure))
    axes = made.subplots(rows, columns, **grid)
    made.suptitle(fill(title, int(width * LETTERS_PER_INCH)), x=0.01, ha="left", fontsize=12)
    plt.close(made)  # or a notebook would show it twice: as the cell's value and as an open figure
    return made, axes


def description(made: Figure) -> str:
    """The alternative text of a figure: its title, which states the finding, and what its axes show."""
    axes = [f"{a.get_ylabel()} over {a.get_xlabel()}" for a in made.axes if a.get_xlabel() and a.get_ylabel()]
    alone = [a.get_xlabel() for a in made.axes if a.get_xlabel() and not a.get_ylabel()]
    shown = ", ".join(dict.fromkeys(axes + alone))
    said = f"Figure: {made.get_suptitle()}" + (f" ({shown})" if shown else "")
    return " ".join(said.split())


def place_freely(made: Figure) -> None:
    """Let the caller say where the axes are, to the inch; the title stays at the top."""
    made.set_layout_engine("none")
    made.suptitle(made.get_suptitle(), x=0.01, y=1 - 0.06 / made.get_figheight(), ha="left", fontsize=12)
