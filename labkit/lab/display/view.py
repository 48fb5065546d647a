"""`lab.view()`: a tile per rank that says what it does, while cells run. In Lab a widget, elsewhere text.

Put it beside the notebook: right-click its output, *Create New View for Cell Output*.

What is stored of it is text that says the same in every run, and never the widget's state: the
widget is made when somebody watches, so under nbval and nbconvert there is none.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from labkit.lab.display.said import Said
from labkit.lab.display.tables import aligned
from labkit.lab.remote import Reachable, ask_states
from labkit.rank.protocol import WAITING, State
from labkit.trace.watched import somebody_watches

COLUMNS = ("rank", "state", "waits for or computes")


@dataclass(frozen=True)
class Tile:
    """One rank as the view shows it. `memory` is in bytes, None if it is not known."""

    rank: int
    host: str = ""
    state: str = "ready"
    what: str = ""
    place: str = ""
    memory: int | None = None
    said: str = ""


def tile(before: Tile, state: State, said: str = "") -> Tile:
    """That rank's next tile; what the state does not tell stays as it was."""
    what = state.what() if state.doing == WAITING else state.error
    memory = state.memory or before.memory
    return replace(before, state=state.doing, what=what, place=state.place, memory=memory, said=said)


def text(tiles: Sequence[Tile]) -> str:
    """The tiles as aligned text, without what differs from run to run: host, memory."""
    doing = ((t.rank, t.state, ", ".join(filter(None, (t.what, t.place)))) for t in tiles)
    return aligned([COLUMNS, *doing])


class Viewable(Reachable, Protocol):
    """What of a lab it takes to show its ranks."""

    def is_running(self) -> bool: ...

    def status(self) -> tuple[tuple, ...]: ...


class View:
    """The tiles of one lab; `look` is a `cell.Watcher`, `rest` is called when no cell runs."""

    def __init__(self, lab: Viewable) -> None:
        self._lab = lab
        self._widget: Any = None
        self.tiles: tuple[Tile, ...] = ()
        self.rest()

    def look(self, said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> None:
        """Show what each rank does and the last line that it said."""
        before = {t.rank: t for t in self.tiles}
        last = {s.rank: s.words().rpartition("\n")[2] for s in said}
        tiles = (tile(before.get(s.rank, Tile(s.rank)), s, last.get(s.rank, "")) for s in states)
        self._show(tuple(tiles), f"a cell has run for {seconds:.0f} s")

    def rest(self) -> None:
        """Show the ranks of the lab between two cells."""
        lab = self._lab
        told = ask_states(lab, [r.rank for r in lab.ranks]) if lab.is_running() else {}
        rows = lab.status()
        tiles = (Tile(row[0], row[1], row[-1], memory=_memory(told.get(row[0]))) for row in rows)
        self._show(tuple(tiles), "no cell runs")

    def _show(self, tiles: tuple[Tile, ...], headline: str) -> None:
        self.tiles = tiles
        if self._widget is not None:
            self._widget.headline = headline
            self._widget.tiles = [asdict(t) for t in tiles]

    def __repr__(self) -> str:
        return text(self.tiles)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        plain = {"text/plain": repr(self)}
        if not somebody_watches():
            return plain
        if self._widget is None:
            from labkit.lab.display.widget import Tiles

            self._widget = Tiles()
            self._show(self.tiles, "no cell runs")
        bundle, metadata = self._widget._repr_mimebundle_()
        return bundle | plain, metadata


def _memory(state: State | None) -> int | None:
    return state.memory if state else None
