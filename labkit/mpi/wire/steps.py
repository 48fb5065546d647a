"""Every MPI call of this backend as data: each function here makes one Step.

A step is posted by a Channel. It carries a mold, the sizes that a rank must know to take part
with scratch memory: that is how recovery ends a collective that some ranks never entered.
"""

from collections.abc import Sequence

import torch

from labkit.mpi.wire.buffers import DATATYPES, as_bytes, as_numbers, in_blocks, memory, operation
from labkit.mpi.wire.parts import Step
from labkit.mpi.wire.runtime import MPI


def all_reduce(flat: torch.Tensor, op: str) -> Step:
    """[n] -> [n], reduced over all ranks in place."""
    args = MPI.IN_PLACE, as_numbers(flat), operation(op, flat.dtype)
    return Step("Iallreduce", args, ("all_reduce", flat.numel(), flat.dtype, op, None), flat)


def reduce(flat: torch.Tensor, op: str, root: int, rank: int) -> Step:
    """[n] -> [n] on the root, in place; other ranks only give."""
    numbers, combine = as_numbers(flat), operation(op, flat.dtype)
    args = (MPI.IN_PLACE, numbers, combine, root) if rank == root else (numbers, None, combine, root)
    return Step("Ireduce", args, ("reduce", flat.numel(), flat.dtype, op, root), flat)


def broadcast(flat: torch.Tensor, root: int) -> Step:
    """[n] on the root -> [n] everywhere."""
    return Step("Ibcast", (as_bytes(flat), root), ("broadcast", flat.nbytes, torch.uint8, None, root), flat)


def all_gather(source: torch.Tensor, target: torch.Tensor, rank: int) -> Step:
    """[n] -> [size * n]. The source may be this rank's own part of the target (FSDP2 does that)."""
    here = source.data_ptr()
    start = target.data_ptr()
    in_place = source.nbytes and here == start + rank * source.nbytes
    if not in_place and start <= here < start + target.nbytes:
        source = source.clone()
    args = MPI.IN_PLACE if in_place else as_bytes(source), as_bytes(target)
    return Step("Iallgather", args, ("all_gather", source.nbytes, torch.uint8, None, None), (source, target))


def all_gather_bytes(record: bytes, records: bytearray) -> Step:
    """The same for bytes: a record of each rank into one bytearray."""
    args = [record, MPI.BYTE], [records, MPI.BYTE]
    return Step("Iallgather", args, ("all_gather", len(record), torch.uint8, None, None), (record, records))


def all_gather_uneven(source: torch.Tensor, target: torch.Tensor, counts: Sequence[int]) -> Step:
    """[counts[rank]] -> [sum(counts)]."""
    args = as_bytes(source), in_blocks(target, counts)
    sizes = tuple(n * target.itemsize for n in counts)
    return Step("Iallgatherv", args, ("all_gather_uneven", sizes, torch.uint8, None, None), (source, target))


def gather(source: torch.Tensor, target: torch.Tensor | None, root: int) -> Step:
    """[n] -> [size * n] on the root; `target` is None elsewhere."""
    args = as_bytes(source), None if target is None else as_bytes(target), root
    return Step("Igather", args, ("gather", source.nbytes, torch.uint8, None, root), (source, target))


def scatter(source: torch.Tensor | None, target: torch.Tensor, root: int) -> Step:
    """[size * n] on the root -> [n]; `source` is None elsewhere."""
    args = None if source is None else as_bytes(source), as_bytes(target), root
    return Step("Iscatter", args, ("scatter", target.nbytes, torch.uint8, None, root), (source, target))


def reduce_scatter(source: torch.Tensor, target: torch.Tensor, op: str) -> Step:
    """[size * n] -> [n], block r of the sum on rank r."""
    # mpi4py wants the count of one block with the whole source.
    given = [memory(source), target.numel(), DATATYPES[source.dtype]]
    args = given, as_numbers(target), operation(op, source.dtype)
    mold = "reduce_scatter", target.numel(), target.dtype, op, None
    return Step("Ireduce_scatter_block", args, mold, (source, target))


def all_to_all(source: torch.Tensor, target: torch.Tensor, give: Sequence[int], take: Sequence[int]) -> Step:
    """Block r of the source goes to rank r; `give` and `take` are the sizes in elements."""
    args = in_blocks(source, give), in_blocks(target, take)
    sizes = tuple(n * source.itemsize for n in give), tuple(n * target.itemsize for n in take)
    return Step("Ialltoallv", args, ("all_to_all", sizes, torch.uint8, None, None), (source, target))


def all_to_all_even(source: torch.Tensor, target: torch.Tensor, size: int) -> Step:
    """The same where all blocks have one size."""
    mold = "all_to_all_even", source.nbytes // size, torch.uint8, None, None
    return Step("Ialltoall", (as_bytes(source), as_bytes(target)), mold, (source, target))


def barrier() -> Step:
    return Step("Ibarrier", (), ("barrier", 0, torch.uint8, None, None))


def send(flat: torch.Tensor, rank: int, tag: int) -> Step:
    return Step("Isend", (as_bytes(flat), rank, tag), None, flat)


def receive(flat: torch.Tensor, rank: int, tag: int) -> Step:
    return Step("Irecv", (as_bytes(flat), rank, tag), None, flat)
