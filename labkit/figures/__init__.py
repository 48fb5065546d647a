"""Figures of the course: one file each, drawn from numbers or a trace, in one style.

`from labkit.figures import timeline, traffic`. What the lessons share is here; what one lesson draws
is in the file of its name.
"""

from labkit.figures.animation import animation
from labkit.figures.cells import Cell
from labkit.figures.curves import curves
from labkit.figures.data_state import data_state
from labkit.figures.idle import idle
from labkit.figures.latency_bandwidth import latency_bandwidth
from labkit.figures.step_time import step_time
from labkit.figures.steps import Message, State, steps
from labkit.figures.tiles import Tiles, split, tiles
from labkit.figures.timeline import timeline
from labkit.figures.traffic import traffic

__all__ = [
    "Cell",
    "Message",
    "State",
    "Tiles",
    "animation",
    "curves",
    "data_state",
    "idle",
    "latency_bandwidth",
    "split",
    "step_time",
    "steps",
    "tiles",
    "timeline",
    "traffic",
]
