"""How each kind of time is drawn in every figure, and the legend that says so."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.typing import ColorType

from labkit.figures.colours import RIM, WAIT, half_opaque
from labkit.figures.spans import KINDS

EDGE = 0.6
"""Points, of the edge of what is too pale to stand out from the page."""

HATCHED = {"facecolor": "none", "edgecolor": RIM, "hatch": "//", "linewidth": 0, "zorder": 0}
"""A part of a panel that the legend names: pale grey would say that somebody waits."""


def look(kind: str, colour: ColorType) -> dict[str, Any]:
    """A kind of time, for the rank that has that colour."""
    looks: dict[str, dict[str, Any]] = {
        "compute": {"facecolor": colour, "linewidth": 0},
        "off the CPU": {"facecolor": "white", "edgecolor": colour, "hatch": "//////", "linewidth": 0},
        "communication": {"facecolor": half_opaque(colour), "edgecolor": colour, "linewidth": EDGE},
        "waiting": {"facecolor": WAIT, "edgecolor": RIM, "linewidth": EDGE},
    }
    return looks[kind]


def legend(made: Figure, drawn: set[str], colours: Sequence[str]) -> None:
    """Say below the figure what is drawn; what has the colour of its rank is shown in three of them."""
    colours = list(dict.fromkeys(colours))[:3]
    handles: dict[str, Any] = {
        kind: tuple(Patch(**look(kind, colour)) for colour in colours) for kind in KINDS
    }
    handles["waiting"] = Patch(**look("waiting", WAIT))
    handles["message"] = Line2D([], [], color="black", lw=0.8, marker=">", markersize=5)
    handles["critical path"] = Line2D([], [], color="black", lw=2.5)
    labels = [name for name in handles if name in drawn]
    where: dict[str, Any] = {"loc": "outside lower left", "ncols": 6, "fontsize": 9, "handlelength": 2.2}
    side_by_side = {tuple: HandlerTuple(ndivide=None, pad=0)}
    if labels:
        made.legend([handles[name] for name in labels], labels, handler_map=side_by_side, **where)
