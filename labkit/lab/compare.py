"""One name across ranks: is it the same everywhere, and if not, where and by how much?

Every rank sends digests; only of what differs are the elements fetched, a piece at a time.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from labkit import LabError
from labkit.lab import remote
from labkit.lab.display.comparison import Comparison, Part
from labkit.lab.remote import Reachable
from labkit.rank.wording import ranks

if TYPE_CHECKING:
    from labkit.rank.digest import Digest  # which imports torch

DEADLINE = 60.0
"""Seconds within which idle ranks must answer."""
PIECE = 1 << 20
"""Elements of one tensor that are fetched from each rank at a time."""
_NAME = (ast.Expression, ast.Name, ast.Attribute, ast.Load)
_INDEX = (ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub)


def compare(lab: Reachable, name: str) -> Comparison:
    """Compare what every rank of `lab` holds under `name`, such as "model" or "model[0].weight.grad".

    Raises LabError if no rank has it, or if it is no tensor, module, optimiser, number, text, nor
    a dict or list of these.
    """
    _require_a_name(name)
    lab.require_running()
    told = [dict(pairs or ()) for pairs in _ask(lab, range(len(lab.ranks)), "digests", name)]
    if not any(told):
        raise LabError(f"to compare {name}", "no rank has it", "define it in a %%px cell first")
    names = dict.fromkeys(part for digests in told for part in digests)
    parts = [Part(part, tuple(digests.get(part) for digests in told)) for part in names]
    for part in parts:
        _require_comparable(name, part)
    return Comparison(name, tuple(_with_difference(lab, name, part) for part in parts))


def _with_difference(lab: Reachable, name: str, part: Part) -> Part:
    groups = [(digest, having[0]) for digest, having in part.groups() if digest is not None]
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


def _is_number(digest: Digest) -> bool:
    return digest.shape is not None or digest.dtype in ("bool", "int", "float")


def _require_a_name(name: str) -> None:
    """Anything else would be run on the ranks, and may have an effect or never end."""
    try:
        tree = ast.parse(name, mode="eval")
    except (SyntaxError, TypeError, ValueError):
        tree = None
    if tree is None or not all(isinstance(node, _NAME + _INDEX) for node in ast.walk(tree)):
        fix = 'give a name as in a cell, such as "model" or "model[0].weight"'
        what = repr(name) if isinstance(name, str) else f"a {type(name).__name__} of the notebook's"
        raise LabError(f"to compare {what}", "this is no name", fix)


def _require_comparable(name: str, part: Part) -> None:
    for digest, who in part.groups():
        if digest is not None and not digest.checksum:
            where = f"{part.name} in it is" if part.name else "it is"
            found = f"on {ranks(who)} {where} of type {digest.dtype}"
            fix = "compare tensors, modules, optimisers, numbers, texts, or dicts and lists of these"
            raise LabError(f"to compare {name}", found, fix)


def _ask(lab: Reachable, who: Collection[int], function: str, name: str, *arguments: Any) -> list[Any]:
    asked = f"to compare {name}"
    return remote.call(lab, function, name, *arguments, asked=asked, targets=who, deadline=DEADLINE)
