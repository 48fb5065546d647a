"""What one rank does with a piece of a tensor in memory that all ranks share, stage by stage.

Two ranks exchange: each copies its piece into the memory, they meet, and each reduces both. More ranks split
the work: each owns a part of the piece, copies the others' parts into the memory, and after a meeting reduces
its own; after another all take what the others reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch

from labkit.mpi.wire.buffers import average, carrier

_COMBINE = {
    "SUM": torch.add, "AVG": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}  # fmt: skip


def reduce_into(total: torch.Tensor, own: torch.Tensor, others: Sequence[torch.Tensor], op: str) -> None:
    """`own` reduced with the others, in that order, into `total`; that may be `own`, or the only other."""
    exact = carrier(own.dtype) == own.dtype  # else it is rounded once, at the end
    carried = total if exact else own.to(carrier(own.dtype))
    so_far = own if exact else carried
    for other in others:
        _COMBINE[op](so_far, other, out=carried)
        so_far = carried
    if op == "AVG":
        average(carried, len(others) + 1)
    if not exact:
        total.copy_(carried)


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
        one, other = (piece, self.taken) if self.first else (self.taken, piece)
        reduce_into(piece, one, [other], op)

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
        reduce_into(own, own, self.taken, op)
        self.total.copy_(own)

    def take(self, piece: torch.Tensor, op: str) -> None:
        for (start, end), there in zip(self.cuts, self.totals, strict=True):
            piece[start:end].copy_(there)

    stages: ClassVar[tuple[Callable[..., None], ...]] = (give, combine, take)


Views: TypeAlias = Pair | Split
Stage: TypeAlias = Callable[..., None]
