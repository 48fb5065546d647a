"""The widgets behind `lab.view()` and `lab.last.history`: they draw what they are given, and know no more.

tiles.js    draws a tile per rank
tiles.css   how they look
steps.js    draws a cell step by step, with a slider
steps.css   how that looks
"""

from pathlib import Path

import anywidget
import traitlets

from labkit.figures.colours import RANK_COLOURS

_HERE = Path(__file__).parent


class Tiles(anywidget.AnyWidget):
    """`tiles` holds a dict per rank, with the fields of `labkit.lab.display.view.Tile`."""

    _esm = _HERE / "tiles.js"
    _css = _HERE / "tiles.css"
    headline = traitlets.Unicode().tag(sync=True)
    tiles = traitlets.List().tag(sync=True)
    colours = traitlets.List(list(RANK_COLOURS)).tag(sync=True)


class Steps(anywidget.AnyWidget):
    """`steps` as `labkit.lab.display.steps.drawn` makes them; `step` is the one that is looked at, from 0."""

    _esm = _HERE / "steps.js"
    _css = _HERE / "steps.css"
    steps = traitlets.List().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    stuck_from = traitlets.Int(None, allow_none=True).tag(sync=True)
    verdict = traitlets.Unicode().tag(sync=True)
    colours = traitlets.List(list(RANK_COLOURS)).tag(sync=True)
