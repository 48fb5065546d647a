"""What one rank does with a piece of a tensor in memory that all ranks share, stage by stage.

Two ranks exchange: each copies its piece into the memory, they meet, and each reduces both. More ranks split
the work: each owns a part of the piece, copies the others' parts into the memory, and after a meeting reduces
its own; after another all take what the others reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch

from labkit.mpi.wire.buffers import average, carrier

_COMBINE = {
    "SUM": torch.add, "AVG": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The views that one of two ranks has; made once, since making them takes longer than a small copy.

    A rank writes here again two pieces later. By then the other one has come to the meeting over the
    piece between, and so has read this one.
    """

    first: bool  # both reduce in the same order, to the same bits
    given: torch.Tensor
    taken: torch.Tensor

    @classmethod
    def of(cls, memory: torch.Tensor, rank: int) -> Pair:
        """`memory` is [3, n]."""
        return cls(rank == 0, memory[rank], memory[1 - rank])

    def give(self, piece: torch.Tensor, op: str) -> None:
        self.given.copy_(piece)

    def combine(self, piece: torch.Tensor, op: str) -> None:
        carried = piece.to(carrier(piece.dtype))
        one, other = (carried, self.taken) if self.first else (self.taken, carried)
        _COMBINE[op](one, other, out=carried)
        if op == "AVG":
            average(carried, 2)
        if carried is not piece:
            piece.copy_(carried)

    stages: ClassVar[tuple[Callable[..., None], ...]] = (give, combine)


@dataclass(frozen=True)
class Split:
    """The same of one of many ranks.

    It writes here again with the next piece: the others have read this a meeting earlier.
    """

    cuts: tuple[tuple[int, int], ...]  # the parts before and after the own one
    given: tuple[torch.Tensor, ...]  # where this rank gives them
    own: tuple[int, int]  # the part that it reduces
    taken: tuple[torch.Tensor, ...]  # what the others gave of that
    total: torch.Tensor  # where it puts the result
    totals: tuple[torch.Tensor, ...]  # the others' results, at the cuts

    @classmethod
    def of(cls, memory: torch.Tensor, rank: int) -> Split:
        """`memory` is [size + 1, n]."""
        size, n = memory.shape[0] - 1, memory.shape[1]
        own = n * rank // size, n * (rank + 1) // size
        cuts = tuple((start, end) for start, end in ((0, own[0]), (own[1], n)) if start < end)
        # From the next rank on, so that not all read the same memory at the same time.
        others = [(rank + d) % size for d in range(1, size)]
        return cls(
            cuts=cuts,
            given=tuple(memory[rank, start:end] for start, end in cuts),
            own=own,
            taken=tuple(memory[other, own[0] : own[1]] for other in others),
            total=memory[size, own[0] : own[1]],
            totals=tuple(memory[size, start:end] for start, end in cuts),
        )

    def give(self, piece: torch.Tensor, op: str) -> None:
        for (start, end), there in zip(self.cuts, self.given, strict=True):
            there.copy_(piece[start:end])

    def combine(self, piece: torch.Tensor, op: str) -> None:
        own = piece[slice(*self.own)]
        carried = own.to(carrier(own.dtype))
        for other in self.taken:
            _COMBINE[op](carried, other, out=carried)
        if op == "AVG":
            average(carried, len(self.taken) + 1)
        if carried is not own:
            own.copy_(carried)
        self.total.copy_(own)

    def take(self, piece: torch.Tensor, op: str) -> None:
        for (start, end), there in zip(self.cuts, self.totals, strict=True):
            piece[start:end].copy_(there)

    stages: ClassVar[tuple[Callable[..., None], ...]] = (give, combine, take)


Views: TypeAlias = Pair | Split
