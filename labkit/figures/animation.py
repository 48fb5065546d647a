"""An algorithm step by step, one step at a time: `steps` as a moving picture."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from labkit.figures.cells import rule, sheet
from labkit.figures.picture import picture
from labkit.figures.steps import BELOW, LEFT, RIGHT, State, draw_state
from labkit.figures.style import LETTERS_PER_INCH, in_style

CELL, WIDEST = 0.5, 6.5  # inches
SECONDS, AT_THE_END = 1.2, 3.0
DOTS_PER_INCH = 72


@dataclass(frozen=True)
class Animation:
    """A picture (APNG) that plays by itself, without a script: also in a notebook that is not trusted."""

    states: Sequence[State]
    title: str

    @in_style
    def frame(self, number: int) -> Figure:
        """The figure of one state."""
        ranks, chunks = len(self.states[0].cells), max(len(row) for row in self.states[0].cells)
        cell = min(CELL, WIDEST / (LEFT + chunks + RIGHT))
        above = 0.35 / cell
        width, height = LEFT + chunks + RIGHT, above + ranks + BELOW
        made, axes = sheet(self.title, width, height, cell, len(self.title) / LETTERS_PER_INCH)
        made.set_dpi(DOTS_PER_INCH)
        rule(axes, axes.get_xlim()[1], axes.get_ylim()[0])
        draw_state(axes, self.states[number], LEFT, above, cell)
        return made

    def picture(self) -> tuple[bytes, str]:
        """All states, one after the other, again and again: the PNG, and its colours on a dark page."""
        frames = [self.frame(number) for number in range(len(self.states))]
        shown = [1000 * SECONDS] * (len(frames) - 1) + [1000 * AT_THE_END]
        return picture(frames, {"duration": shown, "loop": 0}, dpi=DOTS_PER_INCH)

    def description(self) -> str:
        """The alternative text: what is to be seen, and the names of the steps."""
        return f"Animation: {self.title} ({', '.join(dict.fromkeys(state.name for state in self.states))})"

    def __repr__(self) -> str:
        return self.description()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        png, dark = self.picture()
        told = {"image/png": base64.b64encode(png).decode(), "text/plain": self.description()}
        return told, {"image/png": {"alt": self.description(), "dark": dark}}


def animation(states: Sequence[State], title: str) -> Animation:
    """A frame per state; a cell that ends in it shows it. What moves cannot be printed: draw `steps` too."""
    return Animation(tuple(states), title)
