"""What a buffer holds, as mpi4py takes it: of which kind its numbers are, and how many.

A kind is a small number, the same in every process: the letter that numpy has for it, and the size. BYTES
says nothing of what they mean.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy import dtype, ndarray

from labkit.mpi.wire.runtime import MPI

Content: TypeAlias = tuple[int, int] | None
"""A kind, and how many of it."""

BYTES, OBJECT = 0, 1
_BYTE = MPI.BYTE
_NUMBERS = frozenset(map(dtype, "bhilqBHILQfdFD"))  # as this machine has them
_NAMES = {ord("f"): "float", ord("i"): "int", ord("u"): "uint", ord("c"): "complex", ord("b"): "bool"}
_kinds: dict[int, int] = {}  # by the handle of a predefined type


def kind(buffer: Any) -> int:
    """Of which kind a buffer's numbers are."""
    try:
        its = buffer.dtype
        return ord(its.kind) << 8 | its.itemsize
    except (AttributeError, TypeError):
        pass
    try:
        return content(buffer)[0]
    except Exception:  # MPI's call, which comes next, says what is wrong with it
        return BYTES


def content(buffer: Any, blocks: int = 1) -> tuple[int, int]:
    """(kind, how many); of one block of several where they share the buffer."""
    try:
        its = buffer.dtype
        return ord(its.kind) << 8 | its.itemsize, buffer.size // blocks
    except (AttributeError, TypeError):
        pass
    if buffer is None:
        return BYTES, 0
    if hasattr(buffer, "element_size"):
        return _of_tensor(buffer), buffer.numel() // blocks
    if not isinstance(buffer, (list, tuple)):
        memory = MPI.memory(buffer)
        return _named(buffer, memory.itemsize), memory.nbytes // memory.itemsize // blocks
    data, *_, last = buffer
    counts = buffer[1] if len(buffer) > 2 or not isinstance(last, (MPI.Datatype, str)) else None
    if isinstance(counts, (list, tuple)) and not isinstance(data, (list, tuple)):
        counts = counts[0] if counts else None
    if isinstance(last, str):
        last = MPI.Datatype.fromcode(last)
    if not isinstance(last, MPI.Datatype):
        of, size = (BYTES, 1) if data is None else content(data)
        return of, counts if isinstance(counts, int) else size // blocks
    of, each = _of_datatype(last)
    if not isinstance(counts, int):
        nbytes = 0 if data is None or data is MPI.BOTTOM else MPI.memory(data).nbytes
        counts = nbytes // max(1, last.extent) // blocks
    return of, counts * each


def landing(buffer: Any) -> Any:
    """The same buffer, in which any message may land: MPICH ends a process where half a number arrives."""
    return [buffer, _BYTE] if type(buffer) is ndarray and buffer.dtype in _NUMBERS else buffer


def _of_tensor(tensor: Any) -> int:
    name = str(tensor.dtype).removeprefix("torch.")
    letter = "b" if name == "bool" else "f" if name.startswith("bfloat") else name[0]
    return ord(letter) << 8 | tensor.element_size()


def _named(buffer: Any, itemsize: int) -> int:
    """Of memory that says its format, or of bytes."""
    code = getattr(buffer, "typecode", None)  # of array.array
    if code is None and isinstance(buffer, memoryview):
        code = buffer.format
    return BYTES if code is None or itemsize == 1 else _kind(MPI.Datatype.fromcode(code))


def _kind(datatype: MPI.Datatype) -> int:
    """Of a predefined type."""
    found = _kinds.get(datatype.handle)
    if found is None:
        text = datatype.typestr
        found = BYTES if text[:1] in "VSB" or text[1:] == "1" else ord(text[0]) << 8 | int(text[1:])
        _kinds[datatype.handle] = found
    return found


def _of_datatype(datatype: MPI.Datatype) -> tuple[int, int]:
    """The kind of its numbers, and how many are in one of it."""
    basic = datatype
    while not basic.is_predefined:
        below, combiner, _ = basic.decode()
        if combiner == "STRUCT":
            return BYTES, datatype.size
        basic = below
    return _kind(basic), datatype.size // max(1, basic.size)


def name(of: int) -> str:
    """ "float64"."""
    if of == OBJECT:
        return "a pickled object"
    return f"{_NAMES.get(of >> 8, chr(of >> 8))}{8 * (of & 255)}" if of else "bytes"
