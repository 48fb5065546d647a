"""A cell while it runs: one display that is drawn anew, and is the cell's result in the end.

Drawn only where somebody watches. Under nbval and nbconvert there is the result alone, because
nbval compares the first state of a display and not its last.
"""

from typing import Protocol

from IPython.display import DisplayHandle, clear_output, display

from labkit.lab.display import rich, tabs
from labkit.lab.display.long_output import shortened
from labkit.lab.display.said import Said, text
from labkit.rank.protocol import COMPUTING, WAITING, State
from labkit.rank.wording import cut
from labkit.trace.watched import somebody_watches

FIRST_AFTER = 0.5
"""Seconds until a running cell is drawn: a short one should not flicker."""
HINT_AFTER = 5.0
"""Seconds until a running cell says what to do about a page that was reloaded meanwhile."""
RELOADED = "(a page that is reloaded shows no more than this: `lab.last` shows the result, once there is one)"
RUNNING = "labkit_running"
"""In the metadata of such a display: a page that opens a notebook says that this cell runs no more."""
LAST_LINES = 8
"""What is shown of each rank's output while it runs."""


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
            self._show({"text/plain": running(said, states, seconds)}, metadata={RUNNING: True})

    def finish(self, said: tuple[Said, ...], notes: str = "") -> None:
        """What ranks said, in rank order; then what needs a display of its own, pictures, labkit's notes."""
        if self._tiles:
            self._tiles.rest()
        said = shortened(said)
        if bundle := _bundle(said):
            self._show(bundle)
        elif self._handle:
            clear_output()
        for other in filter(None, [*rich.others(said), rich.gallery(said)]):
            display(other, raw=True)
        if notes:
            display({"text/plain": notes}, raw=True)

    def _show(self, bundle: dict, **metadata: dict) -> None:
        if self._handle:
            self._handle.update(bundle, raw=True, **metadata)
        else:
            self._handle = display(bundle, raw=True, display_id=self._watched or None, **metadata)


def _bundle(said: tuple[Said, ...]) -> dict[str, str]:
    """The text, and HTML for pages that show more with it; empty if ranks were silent."""
    words = text(said)
    bundle = {"text/plain": words} if words else {}
    if tabs.are_worth_it(said):
        bundle["text/html"] = tabs.html(said)
    elif rich.is_there(said) and (words or any(map(rich.body, said))):
        bundle["text/html"] = rich.html(said)
    return bundle


def running(said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> str:
    """The text of a cell that is still running."""
    lines = []
    doing = {s.rank: s for s in states}
    for s in said:
        tail = s.words().split("\n")[-LAST_LINES:]
        if tail != [""]:
            lines.append("\n".join(f"[rank {s.rank}] {cut(line)}" for line in tail))
    lines.append(f"-- {seconds:.0f} s --")
    lines += [f"rank {s.rank} {describe(doing[s.rank])}" for s in said if s.rank in doing]
    lines += [RELOADED] if seconds > HINT_AFTER else []
    return "\n".join(lines)


def describe(state: State) -> str:
    """ "waits in recv from rank 1, line 3: ..." and the like."""
    what = f"waits in {state.what()}" if state.doing == WAITING else state.doing
    if state.doing == COMPUTING and state.below is not None:
        what = f"is in {state.below.what()}"
    return f"{what}, {state.place}" if state.place else what
