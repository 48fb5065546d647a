"""What a schedule costs: steps, bytes sent per rank, peak memory per rank. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labkit.schedule.description import Chunk, Compute, Copy, Operation, Recv, Reduce, Schedule, Send


def boundary(length: int, chunks: int, index: Any) -> Any:
    """First element of chunk `index` where `torch.tensor_split` cuts; an int, or an array of them.

    >>> [boundary(10, 4, index) for index in range(5)]
    [0, 3, 6, 8, 10]
    """
    size, longer = divmod(length, chunks)
    if longer == 0:
        return index * size
    return index * size + longer + (index - longer) * (index < longer)


def chunk_bytes(schedule: Schedule, chunk: Chunk, nbytes: int, itemsize: int = 4) -> int:
    """Bytes of a chunk when the whole tensor has `nbytes`, in elements of `itemsize` bytes."""
    length = nbytes // itemsize
    if isinstance(chunk, str):
        return itemsize * round(length * dict(schedule.sizes).get(chunk, 1))
    first, last = (chunk.start, chunk.stop) if isinstance(chunk, range) else (chunk, chunk + 1)
    cut = schedule.chunks
    return itemsize * (boundary(length, cut, last) - boundary(length, cut, first))


def steps(schedule: Schedule) -> int:
    """Steps of the rank that has the most; an empty step, in which a rank rests, counts."""
    return max(map(len, schedule.steps), default=0)


def sent_bytes(schedule: Schedule, nbytes: int, itemsize: int = 4) -> tuple[int, ...]:
    """Bytes that each rank sends, [R]; their sum is what the whole schedule sends."""
    return tuple(
        sum(
            chunk_bytes(schedule, operation.chunk, nbytes, itemsize)
            for step in steps
            for operation in step
            if isinstance(operation, Send)
        )
        for steps in schedule.steps
    )


def peak_memory(schedule: Schedule, nbytes: int, itemsize: int = 4) -> tuple[int, ...]:
    """The most bytes that each rank holds at once, [R]: tensor, buffers, and messages not yet added."""
    return tuple(max(memory_use(schedule, rank, nbytes, itemsize)) for rank in range(schedule.world_size))


def memory_use(schedule: Schedule, rank: int, nbytes: int, itemsize: int = 4) -> Iterator[int]:
    """Bytes that a rank holds before its first step and during each step."""
    held: set[int | str] = set(range(schedule.chunks))

    def size(chunks) -> int:
        return sum(chunk_bytes(schedule, chunk, nbytes, itemsize) for chunk in chunks)

    yield size(held)
    for step in schedule.steps[rank]:
        held.update(*map(written, step))
        arriving = [op.chunk for op in step if isinstance(op, Reduce) and op.source is not None]
        yield size(held) + size(arriving)
        held.difference_update(*map(freed, step))


def atoms(chunk: Chunk) -> tuple[int | str, ...]:
    """The single chunks that a message carries."""
    return tuple(chunk) if isinstance(chunk, range) else (chunk,)


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
