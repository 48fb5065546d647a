"""Rows of cells as aligned text."""

from collections.abc import Iterable


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
