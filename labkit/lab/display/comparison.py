"""What ranks have under one name, compared; as text and as HTML. Pure.

Both say who has the same and never the checksum by which that was found, and both round: a lesson that is
stored shows the same on processors that round differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy

from labkit.lab.display.tables import aligned
from labkit.rank.wording import ranks

if TYPE_CHECKING:
    from labkit.rank.digest import Digest  # which imports torch

MARK = "≠"
MOST_EQUAL = 12
"""Parts that are the same everywhere and still shown; what differs is always shown."""
COLUMNS = ("", "name", "rank", "dtype", "shape", "norm or value", "largest difference")


@dataclass(frozen=True)
class Part:
    """One tensor or number: its digest on each rank, None where it is missing.

    `difference` is the largest between any two ranks, of any element; None if the shapes do not match.
    """

    name: str
    digests: tuple[Digest | None, ...]
    difference: float | None = None

    @property
    def equal(self) -> bool:
        """Whether every rank has it, with the same dtype, shape and bits."""
        return len(set(self.digests)) == 1

    def groups(self) -> list[tuple[Digest | None, list[int]]]:
        """Each distinct digest with the ranks that have it, in rank order."""
        found: dict[Digest | None, list[int]] = {}
        for rank, digest in enumerate(self.digests):
            found.setdefault(digest, []).append(rank)
        return list(found.items())


@dataclass(frozen=True)
class Comparison:
    """What `lab.compare` found. It is true in an assert if the ranks have the same.

    >>> lab.compare("world_size").equal, lab.compare("rank").equal
    (True, False)
    """

    name: str
    parts: tuple[Part, ...]

    @property
    def equal(self) -> bool:
        """Whether every rank has the same, bit for bit."""
        return all(part.equal for part in self.parts)

    @property
    def difference(self) -> float | None:
        """The largest difference between any two ranks, of any element; None if something has no match."""
        found = [0.0 if part.equal else part.difference for part in self.parts]
        return None if None in found else float(numpy.max(found))

    def __bool__(self) -> bool:
        return self.equal

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


def text(comparison: Comparison) -> str:
    """A headline, and a row for each part and each group of ranks that have the same."""
    return "\n".join([headline(comparison), aligned([COLUMNS, *_rows(comparison)]), *_left_out(comparison)])


def html(comparison: Comparison) -> str:
    """The same, with what differs in bold."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "".join(_html_row(row) for row in _rows(comparison))
    below = "".join(f"<p>{escape(line)}</p>" for line in _left_out(comparison))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{escape(headline(comparison))}</b></p>{table}{below}"


def headline(comparison: Comparison) -> str:
    """ "model is the same on ranks 0-3, bit for bit", or in how many parts it is not."""
    parts, world = comparison.parts, range(len(comparison.parts[0].digests))
    if comparison.equal:
        return f"{comparison.name} is the same on {ranks(world)}, bit for bit"
    different = [part for part in parts if not part.equal]
    where = f" in {len(different)} of {len(parts)} parts" if len(parts) > 1 else ""
    return f"{MARK} {comparison.name} differs between ranks{where}{_by(comparison.difference)}"


def _by(difference: float | None) -> str:
    return "" if difference is None else f"; the largest difference is {difference:.2g}"


def _rows(comparison: Comparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for part in _shown(comparison):
        name = part.name or comparison.name
        for i, (digest, who) in enumerate(part.groups()):
            first = ("" if part.equal else MARK, name if i == 0 else "", ranks(who).split(" ", 1)[1])
            difference = "" if i or part.equal else _difference(part)
            rows.append((*first, *_cells(digest), difference))
    return rows


def _cells(digest: Digest | None) -> tuple[str, str, str]:
    if digest is None:
        return "missing", "", ""
    value = f"{digest.norm:.4g}" if digest.norm is not None else _short(digest.value)
    return digest.dtype, "" if digest.shape is None else str(digest.shape), value


def _difference(part: Part) -> str:
    if part.difference is not None:
        return f"{part.difference:.2g}"
    present = {digest for digest in part.digests if digest}
    return "other shape" if len({digest.shape for digest in present}) > 1 else ""


def _shown(comparison: Comparison) -> list[Part]:
    equal = [part for part in comparison.parts if part.equal][:MOST_EQUAL]
    return [part for part in comparison.parts if part in equal or not part.equal]


def _left_out(comparison: Comparison) -> list[str]:
    more = len(comparison.parts) - len(_shown(comparison))
    return [f"and {more} more, the same on every rank"] if more else []


def _short(value: str, most: int = 40) -> str:
    return value if len(value) <= most else value[: most - 3] + "..."


def _html_row(row: tuple[str, ...]) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
    return f"<tr style='font-weight:bold'>{cells}</tr>" if row[0] else f"<tr>{cells}</tr>"
