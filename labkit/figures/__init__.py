"""Figures of the course: one file each, drawn from numbers or a trace, in one style.

>>> from labkit.figures import timeline, traffic

style               colours, sizes, and the description that each picture gets
units               seconds and bytes as a reader says them
spans, looks        of a trace: what each rank did when; how each kind of time is drawn
finding             the one thing to see in a trace
timeline            who computed, communicated and waited when
idle, step_time     who computes at a time; where the time of a step goes
traffic             who sent how much to whom
cells               numbers in the colours of the ranks whose data are in them; drawn by the next four
steps, animation    an algorithm step by step, beside each other or one at a time
data_state          who holds what before and after
tiles               which rank holds which part of a matrix
curves              loss and accuracy of several runs
latency_bandwidth   the time of a message against its size
lessons/            what one lesson draws
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
