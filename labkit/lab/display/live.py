"""A cell while it runs: one display that is drawn anew, and is the cell's result in the end.

Drawn only where somebody watches. Under nbval and nbconvert there is the result alone, because
nbval compares the first state of a display and not its last.
"""

import os
from typing import Protocol

from IPython import get_ipython
from IPython.display import DisplayHandle, clear_output, display

from labkit.lab.display import tabs
from labkit.lab.display.long_output import shortened
from labkit.lab.display.said import Said, pictures, text
from labkit.rank.protocol import WAITING, State

FIRST_AFTER = 0.5
"""Seconds until a running cell is drawn: a short one should not flicker."""
LAST_LINES = 8
"""What is shown of each rank's output while it runs."""


def somebody_watches() -> bool:
    """Whether this is a notebook opened in a Jupyter server; LABKIT_LIVE=0 or 1 overrules."""
    asked = os.environ.get("LABKIT_LIVE")
    return asked == "1" if asked else "JPY_SESSION_NAME" in os.environ and get_ipython() is not None


class Tiles(Protocol):
    """A view of all ranks that is beside the cells."""

    def look(self, said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> None: ...

    def rest(self) -> None: ...


class Live:
    """The display of one cell. `look` is a `cell.Watcher`; `finish` shows the result.

    `tiles`, if they are shown, are kept up to date as well.
    """

    def __init__(self, watched: bool | None = None, tiles: Tiles | None = None) -> None:
        self._tiles = tiles
        self._watched = somebody_watches() if watched is None else watched
        self._handle: DisplayHandle | None = None

    def look(self, said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> None:
        """Draw what has been said so far, and what each rank does after a while."""
        if self._tiles:
            self._tiles.look(said, states, seconds)
        if self._watched and seconds >= FIRST_AFTER:
            self._show({"text/plain": running(said, states, seconds)})

    def finish(self, said: tuple[Said, ...], notes: str = "") -> None:
        """One display of all text in rank order, then the pictures in rank order, then labkit's own notes."""
        if self._tiles:
            self._tiles.rest()
        said = shortened(said)
        if words := text(said):
            self._show(
                {"text/plain": words} | ({"text/html": tabs.html(said)} if tabs.are_worth_it(said) else {})
            )
        elif self._handle:
            clear_output()
        for s in said:
            for bundle in filter(pictures, s.displays):
                display(pictures(bundle) | {"text/plain": f"picture of rank {s.rank}"}, raw=True)
        if notes:
            display({"text/plain": notes}, raw=True)

    def _show(self, bundle: dict) -> None:
        if self._handle:
            self._handle.update(bundle, raw=True)
        else:
            self._handle = display(bundle, raw=True, display_id=self._watched or None)


def running(said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> str:
    """The text of a cell that is still running."""
    lines = []
    doing = {s.rank: s for s in states}
    for s in said:
        tail = s.words().split("\n")[-LAST_LINES:]
        if tail != [""]:
            lines.append("\n".join(f"[rank {s.rank}] {line}" for line in tail))
    lines.append(f"-- {seconds:.0f} s --")
    lines += [f"rank {s.rank} {describe(doing[s.rank])}" for s in said if s.rank in doing]
    return "\n".join(lines)


def describe(state: State) -> str:
    """ "waits in recv from rank 1, line 3: ..." and the like."""
    what = f"waits in {state.what()}" if state.doing == WAITING else state.doing
    return f"{what}, {state.place}" if state.place else what
