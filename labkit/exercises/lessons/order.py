"""All-reduces in an order of each rank's own: the find-the-bug of lesson 13."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

TENSORS, SIZE = 3, 4


def _given(generator: torch.Generator, size: int) -> Arguments:
    """Gradients of one shape; which of them is the largest differs from rank to rank."""
    given = []
    for rank in range(size):
        drawn = torch.randn(TENSORS, SIZE, generator=generator)
        drawn /= drawn.norm(dim=1, keepdim=True)
        given.append(([(1 + (i + rank) % TENSORS) * g for i, g in enumerate(drawn)],))
    return given


def _all(arguments: Arguments) -> torch.Tensor:
    """[rank, tensor, number]"""
    return torch.stack([torch.stack(grads) for (grads,) in arguments])


def _in_own_order(arguments: Arguments, divide: bool) -> list[torch.Tensor]:
    """Each rank's largest added to each other rank's largest."""
    whole = _all(arguments)
    order = whole.norm(dim=2).argsort(dim=1, descending=True)
    found = []
    for rank in range(len(arguments)):
        mine = torch.empty(TENSORS, SIZE)
        for place in range(TENSORS):
            mine[order[rank, place]] = sum(grads[o[place]] for grads, o in zip(whole, order, strict=True))
        found.append(mine / len(arguments) if divide else mine)
    return found


LARGEST_FIRST = Exercise(
    task="`grads` are the gradients of layers that all have the same shape. The program begins with the "
    "largest, waits for all, and shall leave each layer's mean over all ranks in its tensor. It runs without "
    "an error, and the network learns nothing. **Find the bug and mend it**, with at most one collective "
    "call more than there are tensors.",
    stub="""\
def sync_largest_first(grads):
    works = []
    for g in sorted(grads, key=lambda g: g.norm().item(), reverse=True):
        works.append(dist.all_reduce(g, async_op=True))
    for work in works:
        work.wait()
    for g in grads:
        g /= dist.get_world_size()
""",
    solution="""\
def sync_largest_first(grads):
    works = []
    for g in grads:  # the same order on every rank
        works.append(dist.all_reduce(g, async_op=True))
    for work in works:
        work.wait()
    for g in grads:
        g /= dist.get_world_size()
""",
    why="Collectives are matched by their order and by nothing else. Each rank's own gradients decide which "
    "is the largest, so the first all-reduce added layer 0 of one rank to layer 2 of another. Shapes that "
    "differed would have shown it. DDP takes the order of the layers, and after the first step the order in "
    "which rank 0 was ready, which it tells the others.",
    hints=(
        "The first call of rank 0 meets the first call of rank 1. Is it the same layer?",
        "Print on each rank in which order it sends. Then choose an order that no rank's own numbers decide.",
    ),
    given=_given,
    answer=lambda arguments, result: torch.stack(list(arguments[0])),
    judge=compare(
        everywhere(lambda arguments: _all(arguments).mean(0)),
        Mistake(
            "The order is each rank's own: here one rank's largest was added to the other's largest, which "
            "is another layer.",
            lambda arguments: _in_own_order(arguments, True),
        ),
        Mistake(
            "The order is each rank's own, and the division is lost.",
            lambda arguments: _in_own_order(arguments, False),
        ),
        Mistake("This is the sum. Divide it by the number of ranks.", everywhere(lambda a: _all(a).sum(0))),
        Mistake(
            "Each rank still has its own gradients. all_reduce must get the tensors themselves, not copies.",
            lambda arguments: list(_all(arguments)),
        ),
        Mistake(
            "Each rank has its own gradients, divided. all_reduce must get the tensors themselves, not "
            "copies.",
            lambda arguments: list(_all(arguments) / len(arguments)),
        ),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: len(arguments[0][0]) + 1,
            "One all-reduce for each tensor, and one to agree if you want to.",
        ),
    ),
    changes=("grads",),
)
