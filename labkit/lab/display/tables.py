"""Rows of cells as aligned text, and the table of a lab's ranks."""

from collections.abc import Iterable, Sequence
from html import escape

RANK_COLUMNS = ("rank", "host", "pid", "device", "backend", "state")


def aligned(rows: Iterable[Iterable]) -> str:
    """Each column as wide as its widest cell.

    >>> print(aligned([("rank", "state"), (0, "ready")]))
    rank  state
    0     ready
    """
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = ([cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in cells)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def ranks_text(rows: Sequence[tuple]) -> str:
    """The table as aligned text."""
    return aligned([RANK_COLUMNS, *rows])


def ranks_html(rows: Sequence[tuple]) -> str:
    """The table as HTML."""
    head = "".join(f"<th>{name}</th>" for name in RANK_COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
