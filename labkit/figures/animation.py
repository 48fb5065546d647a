"""An algorithm step by step, one step at a time: `steps` with buttons."""

from matplotlib.animation import FuncAnimation

from labkit.figures.cells import rule, sheet
from labkit.figures.steps import BELOW, LEFT, RIGHT, State, draw_state
from labkit.figures.style import LETTERS_PER_INCH, in_style

CELL, WIDEST = 0.5, 6.5  # inches
SECONDS = 1.2


@in_style
def animation(states: list[State], title: str) -> FuncAnimation:
    """A frame per state. Show it with `HTML(animation(states, title).to_jshtml(default_mode="once"))`.

    That is a picture per step, about 10 kB each; a page without scripts shows nothing of it: draw
    `steps` beside it.
    """
    ranks, chunks = len(states[0].cells), max(len(row) for row in states[0].cells)
    cell = min(CELL, WIDEST / (LEFT + chunks + RIGHT))
    above = 0.35 / cell
    made, axes = sheet(
        title, LEFT + chunks + RIGHT, above + ranks + BELOW, cell, len(title) / LETTERS_PER_INCH
    )
    made.set_dpi(72)
    limits = axes.get_xlim()[1], axes.get_ylim()[0]

    @in_style
    def draw(number: int) -> None:
        axes.clear()
        rule(axes, *limits)
        draw_state(axes, states[number], LEFT, above, cell)

    return FuncAnimation(
        made, draw, frames=len(states), interval=1000 * SECONDS, repeat=False, init_func=lambda: None
    )
