"""The two operators at the ends of a split block, Megatron's f and g: the hearts of lesson 16."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

ROWS, COLUMNS = 3, 4


def _tensors(generator: torch.Generator, size: int, same: bool) -> Arguments:
    """What goes in forward, and the gradient that comes backward; `same`: forward equal on all ranks."""

    def draw() -> torch.Tensor:
        return torch.randn(ROWS, COLUMNS, generator=generator, dtype=torch.float64)

    equal, grad = draw(), draw()
    return [(equal.clone(), draw()) if same else (draw(), grad.clone()) for _ in range(size)]


def _there_and_back(operator: Any, arguments: tuple) -> torch.Tensor:
    """What it gives forward, and below that what backward makes of the gradient.

    Forward it gets what an operation gave, as inside a network; if it writes into that, the argument tells.
    """
    tensor, grad = arguments
    leaf = tensor.clone().requires_grad_()
    given = leaf * 1
    out = operator.apply(given)
    result = out.detach().clone()
    out.backward(grad)
    tensor.copy_(given.detach())
    return torch.cat([result, torch.zeros_like(leaf) if leaf.grad is None else leaf.grad])


def _operator(forward: str, backward: str) -> Values:
    """What comes out of it, there and back; each is one of those in `_combined`."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        there, back = _combined(arguments, 0, forward), _combined(arguments, 1, backward)
        return [torch.cat(both) for both in zip(there, back, strict=True)]

    return values


def _combined(arguments: Arguments, place: int, how: str) -> list[torch.Tensor]:
    """Each rank's "own" tensor, a "share" or "none" of it, or the "sum" or "mean" of all ranks' tensors."""
    own = [given[place] for given in arguments]
    size = len(own)
    each = {
        "own": own,
        "sum": [sum(own)] * size,
        "mean": [sum(own) / size] * size,
        "share": [part / size for part in own],
        "none": [0 * part for part in own],
    }
    return each[how]


COPY_TO_RANKS = Exercise(
    task="**f** stands where a split block begins. Forward it hands on `x`, which is the same on every rank. "
    "Backward each rank has a gradient of its own part of the block: return their sum, and leave `grad` as "
    "it is.",
    stub="""\
class MyCopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ...  # your code: the gradient of x
""",
    solution="""\
class MyCopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total)
        return total
""",
    why="x goes into every rank's part, so the gradient of x is the sum over the parts. `grad` belongs to "
    "autograd, which may use it elsewhere: sum into a copy.",
    hints=(
        "One x, R parts that use it. What is the derivative of a sum of R functions?",
        "Clone grad, all_reduce the copy, return it.",
    ),
    given=lambda generator, size: _tensors(generator, size, same=True),
    use=_there_and_back,
    judge=compare(
        _operator("own", "sum"),
        Mistake(
            "Backward hands on the rank's own gradient: that of one part. Add up those of all.",
            _operator("own", "own"),
        ),
        Mistake(
            "Backward gives the mean. Nothing is averaged here: x is in every part.", _operator("own", "mean")
        ),
        Mistake(
            "Forward is right, but backward returns no gradient: x and all that is before it learns nothing.",
            _operator("own", "none"),
        ),
        Mistake("Forward adds up. x is the same everywhere already: hand it on.", _operator("sum", "sum")),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Forward needs none, backward one."),),
    becomes="CopyToRanks",
)

SUM_OVER_RANKS = Exercise(
    task="**g** stands where a split block ends. Forward each rank has a **partial sum** of the output: "
    "return the sum of these parts on every rank, and leave `part` as it is. Backward the gradient of the "
    "output is the same on every rank: hand it on.",
    stub="""\
class MySumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        ...  # your code: the output

    @staticmethod
    def backward(ctx, grad):
        ...  # your code: the gradient of part
""",
    solution="""\
class MySumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad
""",
    why="The output is part_0 + part_1 + ..., so its derivative by each part is 1. All ranks go on with the "
    "same output and come back with the same gradient: to add those up would count it R times.",
    hints=(
        "It mirrors f: what f does backward, g does forward, and the other way round.",
        "Forward: clone, all_reduce, return. Backward: return grad.",
    ),
    given=lambda generator, size: _tensors(generator, size, same=False),
    use=_there_and_back,
    judge=compare(
        _operator("sum", "own"),
        Mistake("Forward hands on the rank's own partial sum. Add up those of all.", _operator("own", "own")),
        Mistake("Forward gives the mean. The output is the sum of the parts.", _operator("mean", "own")),
        Mistake(
            "Backward adds up equal gradients: they come out R times too large. Hand on `grad`.",
            _operator("sum", "sum"),
        ),
        Mistake(
            "Forward is right, but backward divides by the number of ranks. Hand on `grad` as it is.",
            _operator("sum", "share"),
        ),
        Mistake(
            "Forward is right, but backward returns no gradient: the rank's part would learn nothing.",
            _operator("sum", "none"),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Forward needs one, backward none."),),
    becomes="SumOverRanks",
)
