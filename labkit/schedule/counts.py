"""What a schedule costs: steps, bytes sent per rank, peak memory per rank. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labkit.schedule.access import freed, written
from labkit.schedule.chunks import Chunk, boundary
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Reduce, Send


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

    def size(chunks: Iterable[Chunk]) -> int:
        return sum(chunk_bytes(schedule, chunk, nbytes, itemsize) for chunk in chunks)

    yield size(held)
    for step in schedule.steps[rank]:
        held.update(*map(written, step))
        arriving = [op.chunk for op in step if isinstance(op, Reduce) and op.source is not None]
        yield size(held) + size(arriving)
        held.difference_update(*map(freed, step))
