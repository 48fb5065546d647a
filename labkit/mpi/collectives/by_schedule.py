"""Collectives as schedules of messages, for the network knob.

An opaque collective could only be delayed by a formula, and an experiment would then confirm that formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from labkit import LabError
from labkit.mpi.collectives.copies import added
from labkit.mpi.wire.buffers import average, dense
from labkit.schedule import Recv, Reduce, Schedule, Send, run
from labkit.schedule.operations import Operation, Step

if TYPE_CHECKING:
    from labkit.mpi.group import Group
    from labkit.mpi.work import Work

Tensors: TypeAlias = Sequence[torch.Tensor]
Results: TypeAlias = Sequence[Any]
"""Tensors, or a list of them for each of several tensors."""

TAG = 1 << 14
"""Of these messages: no receive of the user's may get one."""


def collective(
    group: Group, verb: str, results: Sequence[Any], tensors: Tensors, opts: Any, **about: Any
) -> Work:
    """Check that all ranks ask for the same, then run it; an asynchronous ring goes on after the return."""
    op = about.get("op", "SUM")
    if verb not in _RUN or op not in ("SUM", "AVG"):
        raise LabError(
            f"{verb} with op={op}" if verb in _RUN else verb,
            f"with the network knob on, schedules are run: {', '.join(_RUN)}, with SUM or AVG",
            "use one of these, or take the limit off: lab.network()",
        )
    if getattr(opts, "asyncOp", False):
        from labkit.mpi.collectives import in_background

        if verb in in_background.VERBS and not any(t.is_sparse for t in tensors):
            return in_background.collective(group, verb, results, tensors, **about)
    _run_of_verb, root = _RUN[verb], about.get("root")
    work = group.begin(verb, None, results, tensors, **about)
    work.wait()
    _run_of_verb(group, results, tensors, op, root)
    return work


def _all_reduce(group: Group, results: Results, tensors: Tensors, op: str, root: int | None) -> None:
    for tensor in tensors:
        if tensor.is_sparse:
            _sparse_all_reduce(group, tensor, op)
            continue
        numbers, back = dense(tensor)
        _follow(_ring(group.members), numbers, group)
        _hand_over(numbers, back, op, group)


def _sparse_all_reduce(group: Group, tensor: torch.Tensor, op: str) -> None:
    """All get the indices and values of all, as many from each rank as the one has that has most."""
    given = tensor.detach().coalesce()
    counts = [int(n) for n in _gathered(group, torch.tensor([given._nnz()]))]

    def of_all(part: torch.Tensor) -> list[torch.Tensor]:
        padded = part.new_zeros((max(counts), *part.shape[1:]))
        padded[: part.shape[0]] = part
        blocks = _gathered(group, padded).view(group.members, *padded.shape)
        return [block[:n] for block, n in zip(blocks, counts, strict=True)]

    added(tensor, of_all(given.indices().t()), of_all(given.values()), op)


def _reduce(group: Group, results: Results, tensors: Tensors, op: str, root: int | None) -> None:
    numbers, back = dense(tensors[0])
    here = group.me == root
    numbers = numbers if here else numbers.clone()  # what others gave stays as it is
    _follow(_tree(group.members, root, 0), numbers, group)
    if here:
        _hand_over(numbers, back, op, group)


def _broadcast(group: Group, results: Results, tensors: Tensors, op: str, root: int | None) -> None:
    for tensor in tensors:
        numbers, back = dense(tensor)
        _follow(_tree(group.members, root, 1), numbers, group)
        _hand_over(numbers, back, "SUM", group)


def _barrier(group: Group, results: Results, tensors: Tensors, op: str, root: int | None) -> None:
    for half in 0, 1:
        _follow(_tree(group.members, 0, half), torch.zeros(1, dtype=torch.uint8), group)


def _all_gather_into_tensor(
    group: Group, results: Sequence[Any], tensors: Tensors, op: str, root: int | None
) -> None:
    for target, source in zip(results, tensors, strict=True):
        blocks = _gathered(group, source)
        target.detach().copy_(blocks.view(target.shape))


def _all_gather(group: Group, results: Results, tensors: Tensors, op: str, root: int | None) -> None:
    for targets, source in zip([results] if len(tensors) == 1 else results, tensors, strict=True):
        for target, block in zip(targets, _gathered(group, source), strict=True):
            target.detach().copy_(block.view(target.shape))


def _gathered(group: Group, source: torch.Tensor) -> torch.Tensor:
    """[n] of each rank -> [size, n]: the ring's second half, in which rank r begins with chunk r + 1."""
    numbers, _ = dense(source)
    blocks = numbers.new_empty(group.members, numbers.numel())
    blocks[(group.me + 1) % group.members] = numbers.detach().view(-1)
    _follow(_half_ring(group.members, 1), blocks, group)
    return blocks.roll(-1, 0)


def _reduce_scatter_tensor(
    group: Group, results: Sequence[Any], tensors: Tensors, op: str, root: int | None
) -> None:
    """[size, n] -> [n]: the ring's first half, in which rank r ends with the sum of chunk r + 1."""
    for target, source in zip(results, tensors, strict=True):
        numbers, _ = dense(source)
        blocks = numbers.detach().view(group.members, -1).roll(1, 0)
        _follow(_half_ring(group.members, 0), blocks, group)
        target.detach().copy_(blocks[(group.me + 1) % group.members].view(target.shape))
        _hand_over(target, None, op, group)


_RUN = {
    "all_reduce": _all_reduce,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "barrier": _barrier,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
}


def _follow(schedule: Schedule, tensor: torch.Tensor, group: Group) -> None:
    run(schedule, tensor.detach().view(-1), group=group, tag=TAG)


def _hand_over(numbers: torch.Tensor, back: Callable[[], object] | None, op: str, group: Group) -> None:
    if op == "AVG":
        average(numbers, group.members)
    if back is not None:
        back()


@cache
def _ring(ranks: int) -> Schedule:
    from labkit.algorithms.ring import ring

    return ring(ranks)


@cache
def _half_ring(ranks: int, half: int) -> Schedule:
    return _half(_ring(ranks), half)


@cache
def _tree(ranks: int, root: int, half: int) -> Schedule:
    """A half of the tree's all-reduce, from or to another rank than 0."""
    from labkit.algorithms.tree import tree

    steps = _half(tree(ranks), half).steps
    return Schedule([_shifted(steps[(rank - root) % ranks], root, ranks) for rank in range(ranks)])


def _half(schedule: Schedule, half: int) -> Schedule:
    """The first half reduces, the second hands out."""
    middle = len(schedule.steps[0]) // 2
    part = slice(middle, None) if half else slice(middle)
    return Schedule([steps[part] for steps in schedule.steps], schedule.chunks)


def _shifted(steps: Sequence[Step], root: int, ranks: int) -> list[Step]:
    def shifted(operation: Operation) -> Operation:
        match operation:
            case Send():
                return replace(operation, to=(operation.peer + root) % ranks)
            case Recv() | Reduce():
                return replace(operation, source=(operation.peer + root) % ranks)
        return operation

    return [tuple(map(shifted, step)) for step in steps]
