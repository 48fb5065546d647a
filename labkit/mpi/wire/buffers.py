"""From tensors to what MPI reads and writes: memory, datatypes and operations.

Types are mapped by hand and never left to the library: given a bfloat16 tensor as it is,
Open MPI returned garbage without a word.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from labkit import LabError
from labkit.mpi.wire.runtime import MPI

DATATYPES = {
    torch.uint8: MPI.UINT8_T, torch.uint16: MPI.UINT16_T, torch.uint32: MPI.UINT32_T,
    torch.uint64: MPI.UINT64_T, torch.bool: MPI.UINT8_T,
    torch.int8: MPI.INT8_T, torch.int16: MPI.INT16_T, torch.int32: MPI.INT32_T, torch.int64: MPI.INT64_T,
    torch.float32: MPI.FLOAT, torch.float64: MPI.DOUBLE,
    torch.complex64: MPI.C_FLOAT_COMPLEX, torch.complex128: MPI.C_DOUBLE_COMPLEX,
}  # fmt: skip
Buffer: TypeAlias = list[Any]
"""What mpi4py takes in place of an array: memory, perhaps a count or counts, a datatype."""

_INTEGER_OPS = {
    "SUM": MPI.SUM, "AVG": MPI.SUM, "PRODUCT": MPI.PROD, "MIN": MPI.MIN, "MAX": MPI.MAX,
    "BAND": MPI.BAND, "BOR": MPI.BOR, "BXOR": MPI.BXOR,
}  # fmt: skip
_FLOAT_OPS = {name: _INTEGER_OPS[name] for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")}
_COMPLEX_OPS = {name: _INTEGER_OPS[name] for name in ("SUM", "AVG", "PRODUCT")}
# A bool is one byte that must stay 0 or 1: 1 + 1 is "or", and a product is "and".
_BOOL_OPS = {
    "SUM": MPI.LOR, "MAX": MPI.LOR, "BOR": MPI.LOR, "PRODUCT": MPI.LAND, "MIN": MPI.LAND, "BAND": MPI.LAND,
    "BXOR": MPI.LXOR,
}  # fmt: skip


_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""What torch does not divide, and NumPy does."""


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of its numbers; `tensor.nbytes` refuses sparse ones, which are told of later."""
    return tensor.numel() * tensor.itemsize


def memory(tensor: torch.Tensor) -> MPI.buffer:
    """The bytes of a contiguous tensor on the CPU, without a copy. The tensor must outlive them."""
    return MPI.memory.fromaddress(tensor.data_ptr(), tensor.nbytes)


def as_bytes(tensor: torch.Tensor) -> Buffer:
    """Buffer of bytes, for verbs that only move data. Without a count: mpi4py would take it per block."""
    return [memory(tensor), MPI.BYTE]


def as_numbers(tensor: torch.Tensor) -> Buffer:
    """Buffer of numbers, for verbs that compute."""
    return [memory(tensor), tensor.numel(), DATATYPES[tensor.dtype]]


def in_blocks(tensor: torch.Tensor, counts: Sequence[int]) -> Buffer:
    """Buffer of bytes cut into one block for each rank; `counts` in elements."""
    return [memory(tensor), ([n * tensor.itemsize for n in counts], None), MPI.BYTE]


def carrier(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which `dtype` is summed: halves are summed in float32 and rounded once."""
    if dtype in DATATYPES:
        return dtype
    if dtype.is_floating_point:
        return torch.float32
    if dtype.is_complex:
        return torch.complex64
    raise LabError(
        f"a reduction of {dtype}", "MPI cannot compute with this dtype", "convert the tensor first"
    )


_NAMES = {int(op): name for name, op in dist.ReduceOp.RedOpType.__members__.items()}


def op_name(op: dist.ReduceOp | dist.ReduceOp.RedOpType) -> str:
    """ "SUM" from `dist.ReduceOp.SUM`, in either of the two types that torch uses for it."""
    return _NAMES[int(getattr(op, "op", op))]  # `.name` takes 7 us


@cache
def operation(name: str, dtype: torch.dtype) -> MPI.Op:
    """The MPI operation for one of torch's names. LabError where the dtype does not allow it."""
    if dtype is torch.bool:
        table = _BOOL_OPS
    elif dtype.is_complex:
        table = _COMPLEX_OPS
    else:
        table = _FLOAT_OPS if dtype.is_floating_point else _INTEGER_OPS
    if name not in table:
        raise LabError(
            f"ReduceOp.{name} of {dtype}", f"{dtype} allows {', '.join(table)}", "use one of these"
        )
    return table[name]


def average(tensor: torch.Tensor, size: int) -> None:
    """Divide a sum by the number of ranks, in place; integers are cut towards zero."""
    tensor = tensor.detach()
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.div_(size)
    elif tensor.dtype in _UNSIGNED:
        tensor.numpy()[...] //= size
    else:
        tensor.div_(size, rounding_mode="trunc")


def dense(tensor: torch.Tensor, *, read: bool = True) -> tuple[torch.Tensor, Callable[[], object] | None]:
    """(contiguous tensor on the CPU, copy-back or None) for any dense tensor.

    The first is the tensor itself where that is possible. Where it is a copy (strided, conjugated or
    on an accelerator) the second writes it back; `read=False` skips the copy in.
    """
    if tensor.layout is not torch.strided:
        raise LabError("a collective on a sparse tensor", str(tensor.layout), "call .to_dense() first")
    lazy = tensor.is_neg() or (tensor.dtype.is_complex and tensor.is_conj())
    if tensor.is_contiguous() and tensor.is_cpu and not lazy:
        return tensor, None
    tensor = tensor.detach()
    # A GPU copies to and from memory that does not move; PyTorch keeps it for the next call.
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    if read:
        copy.copy_(tensor)
    return copy, lambda: tensor.copy_(copy)
