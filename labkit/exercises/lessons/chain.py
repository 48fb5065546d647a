"""A chain of stages that hands the wrong gradient back: the find-the-bug of lesson 15."""

from __future__ import annotations

import copy

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient, linear

SAMPLES, WIDTH = 5, 4


def _stages(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own, an input, and the gradient of the last stage's output."""

    def draw() -> torch.Tensor:
        return torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64)

    layers = [linear(generator, WIDTH, WIDTH, dtype=torch.float64) for _ in range(size)]
    return [(torch.nn.Sequential(layer, torch.nn.Tanh()), draw(), draw()) for layer in layers]


def _gradients(arguments: Arguments, handed_on: bool = False, ones: bool = False) -> list[torch.Tensor]:
    """Of the whole network; or as if each stage handed on the gradient that came to it."""
    stages, x = [copy.deepcopy(stage) for stage, *_ in arguments], arguments[0][1]
    grad, inputs, outputs = arguments[-1][2], [], []
    for stage in stages:
        inputs.append(x.detach().requires_grad_())
        outputs.append(stage(inputs[-1]))
        x = outputs[-1]
    for own, out in zip(reversed(inputs), reversed(outputs), strict=True):
        out.backward(torch.ones_like(grad) if ones else grad)
        grad = grad if handed_on else own.grad
    return [gradient(stage) for stage in stages]


CHAIN_STEP = Exercise(
    task="One step, forward and backward, of a chain of stages. `x` is the batch on rank 0, elsewhere a "
    "tensor of the shape that arrives; `grad` is the gradient of the loss by the output, on the last rank. "
    "It runs without an error, and the gradients of the last stage are right. **Find the bug and mend it.**",
    stub="""\
def chain_step(stage, x, grad):
    if rank > 0:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
    x.requires_grad_()
    out = stage(x)
    if rank < world_size - 1:
        dist.send(out.detach(), rank + 1)
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > 0:
        dist.send(grad, rank - 1)
""",
    solution="""\
def chain_step(stage, x, grad):
    if rank > 0:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
    x.requires_grad_()
    out = stage(x)
    if rank < world_size - 1:
        dist.send(out.detach(), rank + 1)
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > 0:
        dist.send(x.grad, rank - 1)
""",
    why="`grad` is the derivative of the loss by this stage's output. The stage before needs the "
    "derivative by its own output, which is this stage's input: x.grad. All layers are of one width here, "
    "so the wrong tensor has the right shape, and nothing complains.",
    hints=(
        "The last stage is right, the one before is not. What did it get, and what does it need?",
        "A stage's output is the next one's input. Where does autograd leave the gradient of the input?",
    ),
    given=_stages,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=compare(
        _gradients,
        Mistake(
            "Each stage hands on the gradient that came to it. The stage before needs that of its own "
            "output, which is your input: x.grad.",
            lambda arguments: _gradients(arguments, handed_on=True),
        ),
        Mistake(
            "Each stage went back with ones, as if the loss were the sum of its outputs: out.backward(grad).",
            lambda arguments: _gradients(arguments, ones=True),
        ),
        tolerance=1e-9,
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough."),
        Limit(
            "messages",
            lambda arguments: 2 * (len(arguments) - 1),
            "Each boundary is crossed twice: once by an output, once by its gradient.",
        ),
    ),
)
