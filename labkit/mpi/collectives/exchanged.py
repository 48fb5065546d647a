"""What one rank gives and takes where tensors of any verb pass through memory that all ranks share.

It goes in rounds. In each a rank copies a slice of what it gives into places of the memory, and takes slices
from there that others gave: it copies them, or reduces them with its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from labkit.mpi.collectives.pieces import reduce_into

Placed = tuple[int, torch.Tensor]
"""A flat tensor and the number of the place through which it passes."""


@dataclass(frozen=True)
class Sum:
    """`own` reduced with what others gave at `places`, written into `total`, which may be `own`."""

    total: torch.Tensor
    own: torch.Tensor
    places: Sequence[int]
    op: str


@dataclass(frozen=True)
class Exchange:
    """One rank's part. `places` and `longest` are the same on all ranks: how many places there are, and the
    length of the longest tensor that any rank gives. It takes what the ranks `sources` give, if any; `takers`
    take what it gives.
    """

    places: int
    longest: int
    dtype: torch.dtype = torch.uint8
    sources: Sequence[int] = ()
    takers: Sequence[int] = ()
    gives: Sequence[Placed] = ()
    takes: Sequence[Placed] = ()
    sums: Sequence[Sum] = ()

    def give(self, room: torch.Tensor, start: int) -> None:
        """Of every tensor the slice from `start` on. `room` is [places, n], of `dtype`."""
        for place, tensor in self.gives:
            piece = tensor[start : start + room.shape[1]]
            room[place, : piece.numel()].copy_(piece)

    def take(self, room: torch.Tensor, start: int) -> None:
        cut = slice(start, start + room.shape[1])
        for place, tensor in self.takes:
            piece = tensor[cut]
            piece.copy_(room[place, : piece.numel()])
        for each in self.sums:
            own = each.own[cut]
            reduce_into(each.total[cut], own, [room[place, : own.numel()] for place in each.places], each.op)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """[n] of bytes: the same memory, of a contiguous tensor."""
    return tensor.detach().view(-1).view(torch.uint8)
