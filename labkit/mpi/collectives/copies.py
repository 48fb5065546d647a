"""Between the tensors of a call and those that MPI reads and writes: what a plan copies, before and after."""

from collections.abc import Callable, Generator, Sequence

import torch

from labkit.mpi.wire.buffers import average, dense
from labkit.mpi.wire.parts import Local, Part


def copied(source: torch.Tensor, target: torch.Tensor) -> Local:
    return Local(target.copy_, source.detach())


def readable(
    tensor: torch.Tensor, dtype: torch.dtype | None = None, own: bool = False
) -> Generator[Part, None, torch.Tensor]:
    """The tensor as MPI can read it, in that dtype: itself, or else (and if it is to be our own) a copy."""
    numbers, _ = dense(tensor, read=False)
    if own or dtype not in (None, tensor.dtype):
        numbers = torch.empty(tensor.shape, dtype=dtype)
    if numbers is not tensor:
        yield copied(tensor, numbers)
    return numbers


def joined(tensors: Sequence[torch.Tensor]) -> Generator[Part, None, torch.Tensor]:
    """All of them one after another."""
    flat = torch.empty(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)
    yield Local(lambda: torch.cat([dense(t)[0].detach().view(-1) for t in tensors], out=flat))
    return flat


def handing_over(
    total: torch.Tensor, target: torch.Tensor, op: str, size: int, back: Callable[[], object] | None = None
) -> Callable[[], object] | None:
    """What remains to be done once a sum is there: an average, a copy to the target, and from there back."""
    if op != "AVG" and total is target:
        return back

    def finish() -> None:
        if op == "AVG":
            average(total, size)
        if total is not target:
            target.detach().copy_(total.view(target.shape))
        if back is not None:
            back()

    return finish


def added(
    target: torch.Tensor, indices: Sequence[torch.Tensor], values: Sequence[torch.Tensor], op: str
) -> None:
    """Write the sum, or the average, of all ranks' rows of indices and values to a sparse tensor."""
    rows, numbers = torch.cat(list(indices)).t(), torch.cat(list(values))
    total = torch.sparse_coo_tensor(rows, numbers, target.shape, check_invariants=False).coalesce()
    if op == "AVG":
        average(total.values(), len(values))
    with torch.no_grad():  # what is detached of a sparse tensor would get other indices than it
        target.copy_(total)


def spread(flat: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
    offset = 0
    for target in targets:
        block = flat[offset : offset + target.numel()]
        target.detach().copy_(block.view(target.shape))
        offset += target.numel()


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two contiguous tensors."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes
