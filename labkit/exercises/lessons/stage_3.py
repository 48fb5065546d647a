"""A layer whose weights are whole only while it computes, ZeRO's stage 3: a heart of lesson 18."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import normal, rows_of

ROWS, COLUMNS = 12, 3


def _layer(generator: torch.Generator, size: int) -> Arguments:
    weights = normal(generator, ROWS, COLUMNS)
    return [
        (normal(generator, 2, COLUMNS), rows_of(weights, rank, size), normal(generator, 2, ROWS))
        for rank in range(size)
    ]


def _there_and_back(layer: Any, arguments: tuple) -> list[torch.Tensor]:
    """The output, the gradients of x and of the part, and what autograd keeps in between."""
    x, part, grad = arguments
    leaves, kept = [x.clone().requires_grad_(), part.clone().requires_grad_()], []
    known = {leaf.untyped_storage().data_ptr() for leaf in leaves}

    def keep(value: Any) -> Any:
        kept.append(
            value.numel() if torch.is_tensor(value) and value.untyped_storage().data_ptr() not in known else 0
        )
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer.apply(*leaves)
    for value in vars(out.grad_fn).values() if out.grad_fn is not None else ():
        keep(value)
    out.backward(grad)
    found = [out.detach(), *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)]
    return [torch.cat([tensor.flatten() for tensor in found]), torch.tensor(float(sum(kept)))]


def _passed(summed: bool = True, divide: bool = True) -> Values:
    def values(arguments: Arguments) -> list[torch.Tensor]:
        size, found = len(arguments), []
        whole = torch.cat([part for _, part, _ in arguments])
        own = [grad.T @ x for x, _, grad in arguments]
        for rank, (x, _, grad) in enumerate(arguments):
            of_part = rows_of(sum(own) if summed else own[rank], rank, size) / (size if divide else 1)
            found.append(torch.cat([t.flatten() for t in (x @ whole.T, grad @ whole, of_part)]))
        return found

    return values


_compare_passes = compare(
    _passed(),
    Mistake(
        "Output and gradient of x are right. That of the part is the sum: divide it.", _passed(divide=False)
    ),
    Mistake(
        "Output and gradient of x are right. That of the part is the rank's own: nothing has been added.",
        _passed(summed=False, divide=False),
    ),
    Mistake(
        "Output and gradient of x are right. That of the part is the rank's own, divided: nothing has been "
        "added.",
        _passed(summed=False),
    ),
)


def _judge_passes(answers: Answers) -> str:
    found: list[Any] = [f if isinstance(f, list) else [None, 0] for f in answers.found]
    said = _compare_passes(Answers(answers.arguments, [f[0] for f in found]))
    if not said and any(float(f[1]) for f in found):
        return (
            "all numbers are right, but the whole matrix is kept from forward to backward. Save `x` and "
            "`part`, and gather once more."
        )
    return said


SHARDED = Exercise(
    task="`Sharded.apply(x, part)` shall be `x @ whole.T`, where each rank has its own `x`, and of `whole` "
    "its rows, `part`. Forward: gather, multiply, and keep nothing but `x` and `part`. Backward: gather once "
    "more; return the gradient of `x`, `grad @ whole`, and this rank's rows of the mean over all ranks of "
    "`grad.T @ x`. `gathered` is there.",
    stub="""\
class MySharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, part):
        ctx.save_for_backward(x, part)
        ...  # your code: the output

    @staticmethod
    def backward(ctx, grad):
        x, part = ctx.saved_tensors
        ...  # your code: the gradients of x and of part
""",
    solution="""\
class MySharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, part):
        ctx.save_for_backward(x, part)
        return x @ gathered(part).T

    @staticmethod
    def backward(ctx, grad):
        x, part = ctx.saved_tensors
        of_x = grad @ gathered(part)
        mine = torch.empty_like(part)
        dist.reduce_scatter_single(mine, grad.T @ x)
        return of_x, mine / dist.get_world_size()
""",
    why="The whole matrix is a local variable: it is gone when the function returns. That costs two "
    "all-gathers, forward and backward, in place of the one after the optimiser's step of stages 1 and 2.",
    hints=(
        "Forward is one line with gathered(part).",
        "Backward: of_x = grad @ gathered(part); then a reduce-scatter of grad.T @ x into a tensor like "
        "part, divided by the number of ranks; return both.",
    ),
    given=_layer,
    use=_there_and_back,
    judge=_judge_passes,
    limits=(
        Limit("collectives", lambda arguments: 3, "Gather, gather once more, and share the gradient."),
        Limit(
            "sent",
            lambda arguments: 3 * 8 * ROWS * COLUMNS * (len(arguments) - 1) / len(arguments),
            "A rank needs the gradient of its own rows only: reduce_scatter_single.",
        ),
    ),
    uses=("gathered",),
    becomes="Sharded",
)
