"""Which chunks an operation reads, writes and frees in its rank's memory."""

from __future__ import annotations

from labkit.schedule.chunks import Chunk, atoms
from labkit.schedule.operations import Compute, Copy, Operation, Recv, Reduce, Send


def target(operation: Recv | Reduce | Copy) -> Chunk:
    """Where the data lands."""
    return operation.chunk if operation.into is None else operation.into


def read(operation: Operation) -> tuple[int | str, ...]:
    """What a rank must hold for the operation; what a message brings is not among it."""
    match operation:
        case Send(chunk=chunk) | Copy(chunk=chunk) | Reduce(source=None, chunk=chunk):
            return atoms(chunk)
        case Compute(reads=reads):
            return tuple(atom for chunk in reads for atom in atoms(chunk))
    return ()


def written(operation: Operation) -> tuple[int | str, ...]:
    match operation:
        case Recv() | Reduce() | Copy():
            return atoms(target(operation))
        case Compute(produces=produces):
            return tuple(atom for chunk in produces for atom in atoms(chunk))
    return ()


def freed(operation: Operation) -> tuple[int | str, ...]:
    if isinstance(operation, Compute):
        return tuple(atom for chunk in operation.frees for atom in atoms(chunk))
    return ()
