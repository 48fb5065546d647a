"""One name across ranks: is it the same everywhere, and if not, where and by how much?

Every rank sends digests; only of what differs are the elements fetched, a piece at a time.
"""

import ast
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy
from ipyparallel.error import TimeoutError as StillBusy

from labkit import LabError
from labkit.lab.display import comparison

DEADLINE = 60.0
"""Seconds within which idle ranks must answer."""
PIECE = 1 << 20
"""Elements of one tensor that are fetched from each rank at a time."""
_NAME = (ast.Expression, ast.Name, ast.Attribute, ast.Load)
_INDEX = (ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub)


@dataclass(frozen=True)
class Part:
    """One tensor or number: its `labkit.rank.digest.Digest` on each rank, None where it is missing.

    `difference` is the largest between any two ranks, of any element; None if the shapes do not match.
    """

    name: str
    digests: tuple
    difference: float | None = None

    @property
    def equal(self) -> bool:
        """Whether every rank has it, with the same dtype, shape and bits."""
        return len(set(self.digests)) == 1

    def groups(self) -> list[tuple[Any, list[int]]]:
        """Each distinct digest with the ranks that have it, in rank order."""
        found: dict[Any, list[int]] = {}
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
        return comparison.text(self)

    def _repr_html_(self) -> str:
        return comparison.html(self)


def compare(lab, name: str) -> Comparison:
    """Compare what every rank of `lab` holds under `name`, such as "model" or "model[0].weight.grad".

    Raises LabError if no rank has it, or if it is no tensor, module, optimiser, number, text, nor
    a dict or list of these.
    """
    _require_a_name(name)
    lab.require_running()
    told = [dict(pairs or ()) for pairs in _ask(lab, range(len(lab)), "digests", name)]
    if not any(told):
        raise LabError(f"to compare {name}", "no rank has it", "define it in a %%px cell first")
    names = dict.fromkeys(part for digests in told for part in digests)
    parts = [Part(part, tuple(digests.get(part) for digests in told)) for part in names]
    for part in parts:
        _require_comparable(name, part)
    return Comparison(name, tuple(_with_difference(lab, name, part) for part in parts))


def _with_difference(lab, name: str, part: Part) -> Part:
    groups = [(digest, ranks[0]) for digest, ranks in part.groups() if digest is not None]
    shapes = {digest.shape for digest, _ in groups}
    if part.equal or len(groups) < 2 or len(shapes) > 1 or not all(_is_number(d) for d, _ in groups):
        return part
    who = [rank for _, rank in groups]  # one rank for each content is enough
    starts = range(0, math.prod(shapes.pop() or ()), PIECE)
    spreads = [_spread(_ask(lab, who, "piece", name, part.name, at, at + PIECE)) for at in starts]
    return replace(part, difference=float(numpy.max([0.0, *spreads])))


def _spread(pieces: list[numpy.ndarray]) -> float:
    """The largest difference at any position; NaN if some have NaN where others have a number."""
    stack = numpy.stack([piece.astype(numpy.float64) for piece in pieces])
    high, low = stack.max(axis=0), stack.min(axis=0)
    same = (high == low) | numpy.isnan(stack).all(axis=0)
    with numpy.errstate(invalid="ignore"):  # infinity minus infinity, where they are the same
        return float(numpy.where(same, 0.0, high - low).max())


def _is_number(digest) -> bool:
    return digest.shape is not None or digest.dtype in ("bool", "int", "float")


def _require_a_name(name: str) -> None:
    """Anything else would be run on the ranks, and may have an effect or never end."""
    try:
        tree = ast.parse(name, mode="eval")
    except SyntaxError:
        tree = None
    if tree is None or not all(isinstance(node, _NAME + _INDEX) for node in ast.walk(tree)):
        fix = 'give a name as in a cell, such as "model" or "model[0].weight"'
        raise LabError(f"to compare {name!r}", "this is no name", fix)


def _require_comparable(name: str, part: Part) -> None:
    for digest, ranks in part.groups():
        if digest is not None and not digest.checksum:
            where = f"{part.name} in it is" if part.name else "it is"
            found = f"on {comparison.ranks(ranks)} {where} of type {digest.dtype}"
            fix = "compare tensors, modules, optimisers, numbers, texts, or dicts and lists of these"
            raise LabError(f"to compare {name}", found, fix)


def _ask(lab, who, function: str, name: str, *arguments) -> list:
    try:
        return lab[list(who)].apply_async(_on_rank, function, name, *arguments).get(DEADLINE)
    except StillBusy:
        found = f"the ranks did not answer within {DEADLINE:.0f} s"
        raise LabError(
            f"to compare {name}", found, "wait for the cell that they run, or interrupt it"
        ) from None


def _on_rank(function: str, name: str, *arguments):
    """Runs on a rank, so that the owner need not import torch. None if this rank has no such name."""
    from IPython import get_ipython

    from labkit.rank import digest

    try:
        value = eval(name, {}, get_ipython().user_ns)
    except digest.MISSING:
        return None
    return getattr(digest, function)(value, *arguments)
