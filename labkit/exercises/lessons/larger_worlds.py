"""Is a sum by messages right with more ranks than the lab has? One process plays all of them: lesson 07."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.exercises.lazy_torch import dist, torch

LAB = 4
"""Ranks of the largest world in which a check really runs a function."""
SIZES = range(LAB + 1, 18)

Wrong = tuple[int, list[int]]
"""A number of ranks with which rank 0 has another sum, and the ranks whose tensors are not in it."""


class Done:
    """A request that was fulfilled at once."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


@dataclass(frozen=True)
class Imagined:
    """What `dist` is on one rank of such a world. Whatever else a function wants of it raises."""

    rank: int
    size: int
    under_way: dict[int, list[tuple[int, torch.Tensor]]]
    """By receiver: what was sent to it, and by whom."""

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size

    def send(self, tensor: torch.Tensor, dst: int) -> None:
        self.under_way[dst].append((self.rank, tensor.clone()))

    def recv(self, tensor: torch.Tensor, src: int | None = None) -> int:
        mine = self.under_way[self.rank]
        place = next(place for place, (source, _) in enumerate(mine) if src in (None, source))
        source, sent = mine.pop(place)
        tensor.copy_(sent)
        return source

    def isend(self, tensor: torch.Tensor, dst: int) -> Done:
        self.send(tensor, dst)
        return Done()

    def irecv(self, tensor: torch.Tensor, src: int | None = None) -> Done:
        self.recv(tensor, src)
        return Done()


def here_and_in_larger_worlds(function: Callable[..., Any], arguments: tuple) -> tuple[Any, Wrong | None]:
    """What it returns here; and, of rank 0 of a whole lab, the first larger world in which it is wrong."""
    found = function(*arguments)
    whole = dist.get_rank() == 0 and dist.get_world_size() == LAB
    return found, first_wrong(function) if whole else None


def first_wrong(function: Callable[..., Any]) -> Wrong | None:
    """Of SIZES the first in which it is wrong; None too if one process cannot tell."""
    for size in SIZES:
        counts = _counts(function, size)
        if counts is None:
            return None
        if counts != [1] * size:
            return size, [rank for rank, count in enumerate(counts) if count == 0]
    return None


def _counts(function: Callable[..., Any], size: int) -> list[float] | None:
    """How often each rank's tensor is in what rank 0 returns; None if it works in another way.

    Sums go from higher ranks to lower ones: the last rank is played first, and messages wait for theirs.
    """
    names, under_way = function.__globals__, defaultdict(list)
    before: dict[str, Any] = {name: names[name] for name in ("rank", "world_size", "dist") if name in names}
    found = None
    try:
        if "distributed" in function.__code__.co_names:  # it would reach the real ranks
            return None
        for rank in reversed(range(size)):
            names.update(rank=rank, world_size=size, dist=Imagined(rank, size, under_way))
            found = function(torch.eye(size, dtype=torch.float64)[rank])
        return found.tolist() if found.shape == (size,) else None
    except Exception:  # perhaps right, in a way that is not imagined here
        return None
    finally:
        names.update(before)
