"""A large reduction between hosts: along a chain of all ranks, piece after piece.

The ranks of a host stand side by side, and those of the root's host last, the root at the end. So each host
but that one sends the tensor once, and all links of the chain are in use at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labkit.mpi.collectives import as_messages
from labkit.mpi.collectives.copies import handing_over, readable
from labkit.mpi.collectives.pieces import reduce_into
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import carrier, operation
from labkit.mpi.wire.parts import PAUSE, Local, Plan

PIECE = 1 << 18  # bytes


def neighbours(rank: int, root: int, hosts: Sequence[str]) -> tuple[int | None, int | None]:
    """The ranks before and after this one in the chain; `hosts` has each rank's host.

    >>> [neighbours(rank, 0, ["a", "b", "a", "b"]) for rank in range(4)]
    [(2, None), (None, 3), (3, 0), (1, 2)]
    """
    order = {r: (hosts[r] == hosts[root], hosts[r], r == root) for r in range(len(hosts))}
    chain = [None, *sorted(order, key=order.get), None]
    here = chain.index(rank)
    return chain[here - 1], chain[here + 1]


def reduce(tensor: torch.Tensor, op: str, root: int, rank: int, hosts: Sequence[str]) -> Plan:
    """A rank receives a piece while what it made of the one before is on its way to the next rank."""
    operation(op, carrier(tensor.dtype))  # refuses what the dtype does not allow
    before, after = neighbours(rank, root, hosts)
    given = yield from readable(tensor, carrier(tensor.dtype))
    pieces = given.detach().view(-1).split(PIECE // given.itemsize)
    combine = "SUM" if op == "AVG" else op
    for piece in pieces:
        total = piece
        if before is not None:
            arrived = torch.empty_like(piece)
            yield steps.receive(arrived, before, as_messages.TAG)
            yield PAUSE
            total = arrived if after is not None else piece  # the caller's tensor stays as it is
            yield Local(reduce_into, total, piece, [arrived], combine)
        if after is not None:
            yield steps.send(total, after, as_messages.TAG)
    finish = handing_over(given, tensor, op, len(hosts)) if rank == root else None
    if finish is not None:
        yield Local(finish)
