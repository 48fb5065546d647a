"""Figures of the course: one file each, drawn from numbers or a trace, in one style.

`from labkit.figures import timeline, traffic`. What the lessons share is here; what one lesson draws
is in the file of its name.

timeline            who computed, communicated and waited when
touch/              the same as a page that can be zoomed and says what each bar is
finding             the title of a timeline, computed from the trace
spans               what a rank did when, as spans that do not overlap
looks               how each kind of time is drawn
traffic             who sent how many bytes to whom
idle                what a split model leaves idle
step_time           where the time of a step goes
steps               an algorithm step by step, and who holds what
animation           the same, one step at a time
data_state          which rank holds what, before and after
cells               numbers as rows of cells in the colours of ranks
tiles               which rank holds which part of a matrix
curves              loss and accuracy of several runs
latency_bandwidth   time of a message against its size
lessons/            figures that one lesson needs
style               fonts, sizes, lines
colours             a colour per rank, grey for waiting, and both on a dark page
picture             one PNG for light pages and dark ones
units               seconds and bytes in units that a reader can say
"""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

# Ctrl-C in the midst of it would leave parts of a matplotlib that can never be imported again, or make an
# ImportError of itself. It reaches no other thread than the main one.
with ThreadPoolExecutor(1) as _thread:
    list(_thread.map(import_module, ("matplotlib.pyplot", "matplotlib.backends.backend_agg")))

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
