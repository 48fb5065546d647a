"""The one style of every figure: a colour per rank that never changes, grey for waiting.

The rank colours are Okabe and Ito's palette, made to be told apart by colour-blind readers
(https://jfly.uni-koeln.de/color/). From rank 8 on they come again: what names a rank is its number.

Figures are opaque white on purpose, under dark themes too: a colour must not change its meaning with
the theme, and black text on white is legible in both.
"""

from collections.abc import Callable
from io import BytesIO
from textwrap import fill
from typing import Any, cast

import matplotlib.pyplot as plt
import matplotlib.style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.typing import ColorType

from labkit.figures.watched import somebody_watches

RANK_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
WAIT = "#E2E2E2"
QUIET = "#595959"
"""The grey of text that may be overlooked; still 4.5 to 1 on `WAIT`."""
COMMUNICATION_ALPHA = 0.5
DASHES = ("-", "--", ":", "-.")
GREYS = ("black", "0.35", "0.55", "0.7")
"""For curves that are no rank's: colours are the ranks'."""
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

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        """For a notebook: what is said of the picture where it cannot be seen, beside the picture itself.

        Where somebody watches, and there is one, also the page that can be touched.
        """
        told = {"text/plain": description(self)}
        if self.page and somebody_watches():
            told["text/html"] = self.page(self._png())
        return told, {"image/png": {"alt": description(self)}}

    def _png(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def rank_colour(rank: int) -> str:
    """The colour of a rank in every figure of the course: rank 0 is blue, rank 1 orange."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]


def line(number: int) -> dict[str, Any]:
    """The look of one of up to four curves: each has a grey and a dash of its own."""
    return {"color": GREYS[number % 4], "linestyle": DASHES[number % 4], "linewidth": 1.5}


def line_of_many(number: int) -> dict[str, Any]:
    """The same for up to sixteen: four dashes in one grey, then in the next."""
    return line(number) | {"color": GREYS[number // 4 % 4]}


def half_opaque(colour: ColorType) -> tuple[float, float, float]:
    """The colour as it looks half-opaque on white. Laid over another bar it does not mix with it."""
    red, green, blue = (1 - COMMUNICATION_ALPHA * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def ink(background: ColorType) -> str:
    """Black or white: what is easier to read on that colour."""
    on_white, on_black = contrast("white", background), contrast("black", background)
    return "white" if on_white > on_black else "black"


def contrast(one: ColorType, other: ColorType) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2.1 defines it; text needs 4.5."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: ColorType) -> float:
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear_rgb(colour), strict=True))


def linear_rgb(colour: ColorType) -> tuple[float, ...]:
    """Red, green and blue as amounts of light, 0 to 1: sRGB without its curve."""
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))


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
