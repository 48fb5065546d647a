"""Events as a table: aligned text, and HTML where a page shows it."""

from collections.abc import Sequence
from html import escape

from labkit.trace.event import COMPUTE, Event

COLUMNS = ("rank", "verb", "with", "bytes", "dtype", "line")
TIMES = ("start", "ms", "waiting", "cpu")
TO_THE_RIGHT = ("rank", "bytes", *TIMES)


class Table(str):
    """Aligned text, which a notebook shows as a table."""

    rows: Sequence[Sequence[str]]

    def __new__(cls, rows: Sequence[Sequence[str]]) -> "Table":
        """The first row is the head."""
        made = super().__new__(cls, _aligned(rows))
        made.rows = rows
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *body = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self.rows)
        head = head.replace("td>", "th>")
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


class Chain(tuple[Event, ...]):
    """Events of which each had to wait for the one before; a notebook shows them as a table with times."""

    def __repr__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        return Table([_head(True), *(_row(event, True) for event in self)])


def table(events: Sequence[Event], times: bool) -> Table:
    """A line for each event, rank by rank in the order of starts; times in milliseconds."""
    shown = sorted((e for e in events if times or e.verb != COMPUTE), key=lambda e: (e.rank, e.start, e.end))
    return Table([_head(times), *(_row(event, times) for event in shown)])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    right = {i for i, name in enumerate(rows[0]) if name in TO_THE_RIGHT}
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if i in right else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _head(times: bool) -> tuple[str, ...]:
    return (*COLUMNS[:-1], *TIMES, COLUMNS[-1]) if times else COLUMNS


def _row(event: Event, times: bool) -> tuple[str, ...]:
    named = event.verb + (f" {event.label}" if event.label else "")
    size = "" if event.verb == COMPUTE else str(event.bytes)
    measured = (event.start, event.end - event.start, event.waiting, event.cpu) if times else ()
    return (
        str(event.rank), named, _with(event), size, event.dtype,
        *(f"{1000 * seconds:.3f}" for seconds in measured), event.place,
    )  # fmt: skip


def _with(event: Event) -> str:
    """ "to 1", "from 0", "0-3", "0-3, root 2"."""
    if event.verb in ("send", "recv"):
        tag = f", tag {event.tag}" if event.tag else ""
        return f"{'to' if event.verb == 'send' else 'from'} {_spans(event.peers)}{tag}"
    root = "" if event.root is None else f", root {event.root}"
    return f"{_spans(event.peers)}{root}"


def _spans(ranks: Sequence[int]) -> str:
    ranks = sorted(ranks)
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))
