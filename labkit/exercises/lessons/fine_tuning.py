"""A chain of stages of which some are frozen: the heart of lesson 15."""

from __future__ import annotations

import copy

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient, linear

SAMPLES, WIDTH = 5, 4


def _stages(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own, an input, the gradient of the last stage's output, and who is frozen."""
    frozen = int(torch.randint(1, max(2, size - 1), (), generator=generator))
    given = []
    for rank in range(size):
        layer = linear(generator, WIDTH, WIDTH, dtype=torch.float64)
        layer.requires_grad_(rank >= frozen)
        x, grad = (torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
        given.append((torch.nn.Sequential(layer, torch.nn.Tanh()), x, grad, frozen))
    return given


def _whole(arguments: Arguments, start: int = 0, grad: torch.Tensor | None = None) -> list[torch.Tensor]:
    """The gradients of the whole network, from the stage `start` on, which takes its own input."""
    stages = [copy.deepcopy(stage) for stage, *_ in arguments]
    out = arguments[start][1]
    for stage in stages[start:]:
        out = stage(out)
    out.backward(arguments[-1][2] if grad is None else grad)
    return [gradient(stage) for stage in stages]


def _each_alone(arguments: Arguments) -> list[torch.Tensor]:
    """Each stage with its own input, as if it were the only one."""
    return [
        _whole([own])[0] if own[0][0].weight.requires_grad else torch.zeros(WIDTH * WIDTH + WIDTH)
        for own in arguments
    ]


def _transfers(arguments: Arguments) -> int:
    """Activations over each boundary; gradients over those after the first stage that learns."""
    return (len(arguments) - 1) + (len(arguments) - 1 - arguments[0][3])


FINE_TUNE = Exercise(
    task="The first `frozen` stages are trained already: their parameters have `requires_grad` False. Do one "
    "step, forward and backward, and send nothing that nobody needs. `x` is the batch on rank 0, elsewhere "
    "a tensor of the shape that arrives; `grad` is the gradient of the loss by the output, on the last rank. "
    "Leave the gradients in the parameters of the other stages.",
    stub="""\
def fine_tune(stage, x, grad, frozen):
    ...  # your code
""",
    solution="""\
def fine_tune(stage, x, grad, frozen):
    first, last = rank == 0, rank == world_size - 1
    if not first:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
    x.requires_grad_(rank > frozen)
    out = stage(x)
    if not last:
        dist.send(out.detach(), rank + 1)
    if rank < frozen:
        return
    if not last:
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > frozen:
        dist.send(x.grad, rank - 1)
""",
    why="Stage `frozen` is the first that learns: it needs the gradient of its output, and nobody needs that "
    "of its input. So the frozen stages do not go back at all, and keep no activations either.",
    hints=(
        "Begin with forward_through and backward_through. Which ranks need a gradient, and from whom?",
        "Ranks below `frozen` are done after the forward part: nothing there asks for a gradient, so there "
        "is no graph to go back through. Rank `frozen` receives a gradient, goes back and sends none: only "
        "ranks after it ask for x.grad.",
    ),
    given=_stages,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=compare(
        _whole,
        Mistake("Each rank used its own x. The input of a stage comes from the rank before.", _each_alone),
        Mistake(
            "This is the gradient of the sum of the outputs. Go back with `grad`: out.backward(grad).",
            lambda arguments: _whole(arguments, grad=torch.ones(SAMPLES, WIDTH)),
        ),
        tolerance=1e-9,
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough."),
        Limit(
            "messages",
            _transfers,
            "The forward part needs one for each boundary. Gradients have to go back to stage `frozen`, "
            "and no further.",
        ),
    ),
)
