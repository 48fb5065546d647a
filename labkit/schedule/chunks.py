"""The parts of a tensor that a schedule names: what they are called, and where they begin and end."""

from __future__ import annotations

from typing import Any

Chunk = int | range | str
"""A part of the tensor by its number, several neighbouring parts as one message, or a buffer by its name."""


def boundary(length: int, chunks: int, index: Any) -> Any:
    """First element of chunk `index` where `torch.tensor_split` cuts; an int, or an array of them.

    >>> [boundary(10, 4, index) for index in range(5)]
    [0, 3, 6, 8, 10]
    """
    size, longer = divmod(length, chunks)
    if longer == 0:
        return index * size
    return index * size + longer + (index - longer) * (index < longer)


def chunk_range(first: int, last: int) -> int | range:
    """How operations name the chunks from first to last - 1."""
    return first if last - first == 1 else range(first, last)


def atoms(chunk: Chunk) -> tuple[int | str, ...]:
    """The single chunks that a message carries."""
    return tuple(chunk) if isinstance(chunk, range) else (chunk,)


def label(chunk: Chunk) -> str:
    """What a trace calls a chunk: "chunk 2", "chunks 0-3", or the buffer's own name."""
    if isinstance(chunk, range) and len(chunk) != 1:
        return f"chunks {short(chunk)}"
    return chunk if isinstance(chunk, str) else f"chunk {short(chunk)}"


def short(chunk: Chunk) -> str:
    if isinstance(chunk, range):
        return f"{chunk[0]}-{chunk[-1]}" if len(chunk) > 1 else "-".join(map(str, chunk))
    return str(chunk)
