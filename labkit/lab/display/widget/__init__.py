"""The widget behind `lab.view()`: it draws the tiles that it is given, and knows nothing else.

tiles.js    draws a tile per rank
tiles.css   how they look
"""

from pathlib import Path

import anywidget
import traitlets

from labkit.figures.style import RANK_COLOURS

_HERE = Path(__file__).parent


class Tiles(anywidget.AnyWidget):
    """`tiles` holds a dict per rank, with the fields of `labkit.lab.display.view.Tile`."""

    _esm = _HERE / "tiles.js"
    _css = _HERE / "tiles.css"
    headline = traitlets.Unicode().tag(sync=True)
    tiles = traitlets.List().tag(sync=True)
    colours = traitlets.List(list(RANK_COLOURS)).tag(sync=True)
