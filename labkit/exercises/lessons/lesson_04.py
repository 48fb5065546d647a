"""Lesson 04, Train in step: its prediction, exercises and questions."""

from __future__ import annotations

import copy
from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.averaged_loss import MEND_THE_STEP
from labkit.exercises.lessons.epoch import TRAIN_EPOCH
from labkit.exercises.lessons.networks import gradient
from labkit.exercises.lessons.replicas import CLASSES, GRADIENTS, INITIAL_WEIGHTS, PARAMETERS, PIXELS, network

BATCHES, SAMPLES = 6, 64
MEMORY = 8_000
"""Bytes: the graph of one mini-batch fits, that of two does not."""


def _with_batches(generator: torch.Generator, size: int) -> Arguments:
    """In p.grad is what an earlier step left there."""
    made, given = network(generator), []
    stale = [torch.randn(p.shape, generator=generator) for p in made.parameters()]
    for _ in range(size):
        mine = copy.deepcopy(made)
        for p, before in zip(mine.parameters(), stale, strict=True):
            p.grad = before.clone()
        x = torch.randn(BATCHES, SAMPLES, PIXELS, generator=generator)
        y = torch.randint(CLASSES, (BATCHES, SAMPLES), generator=generator)
        given.append((mine, list(zip(x, y, strict=True))))
    return given


def _gradient(network: torch.nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Of the mean loss over all samples of these mini-batches; the network is left as it was."""
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    loss = torch.nn.functional.cross_entropy(network(x), y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])


def _stale(arguments: Arguments) -> torch.Tensor:
    return gradient(arguments[0][0])


def _alone(arguments: Arguments) -> list[torch.Tensor]:
    return [_gradient(network, batches) for network, batches in arguments]


def _of_all(arguments: Arguments) -> torch.Tensor:
    return sum(_alone(arguments)) / len(arguments)


def _times(factor: Callable[[int], float], value: Callable[[Arguments], torch.Tensor]) -> Values:
    return lambda arguments: [factor(len(arguments)) * value(arguments)] * len(arguments)


def _of_the_last(arguments: Arguments) -> torch.Tensor:
    return _of_all([(network, batches[-1:]) for network, batches in arguments])


ACCUMULATE = Exercise(
    task="The batch that you want does not fit into memory. `batches` is a list of mini-batches `(x, y)` of "
    "one size; in `p.grad` is what the last step left there. Leave in `p.grad` the gradient of the mean loss "
    "over all mini-batches of all ranks, and synchronise once. Never hold the graph of more than one "
    "mini-batch: what its forward pass keeps for `backward()`.",
    stub="def accumulate(model, batches):\n    ...  # your code\n",
    solution="""\
def accumulate(model, batches):
    model.zero_grad()
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        (loss / len(batches)).backward()
    sync_gradients(model)
""",
    why="backward() adds to p.grad, so a rank can sum up as many mini-batches as it likes before it talks. "
    "The batch is then larger, and communication per sample smaller; DistributedDataParallel leaves "
    "its own synchronisation out inside of no_sync().",
    hints=(
        "backward() adds to what is in p.grad. Call it for each mini-batch, without zero_grad in between.",
        "The sum of the gradients of k mean losses is k times the gradient that you want. Call "
        "sync_gradients once, after the last backward().",
    ),
    given=_with_batches,
    answer=lambda arguments, result: gradient(arguments[0]),
    uses=("sync_gradients",),
    judge=compare(
        everywhere(_of_all),
        Mistake(
            "This is the sum over the mini-batches. Divide each loss by their number.",
            _times(lambda size: BATCHES, _of_all),
        ),
        Mistake(
            "This is the sum over the ranks. Divide by their number, as sync_gradients does.",
            _times(lambda size: size, _of_all),
        ),
        Mistake(
            "This is divided by the number of ranks twice: sync_gradients has done it already.",
            _times(lambda size: 1 / size, _of_all),
        ),
        Mistake("Each rank has the gradient of its own mini-batches. Synchronise.", _alone),
        Mistake(
            "What the last step left in p.grad is still in there: begin with model.zero_grad().",
            everywhere(lambda arguments: _of_all(arguments) + _stale(arguments)),
        ),
        Mistake(
            "Only the last mini-batch counts: is there a zero_grad in the loop, or a backward() after it?",
            everywhere(_of_the_last),
        ),
        Mistake(
            "Only the last mini-batch counts, although the loss is divided by their number: is there a "
            "zero_grad in the loop, or a backward() after it?",
            _times(lambda size: 1 / BATCHES, _of_the_last),
        ),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: PARAMETERS,
            "One synchronisation is one all_reduce per parameter. Add the mini-batches up first, "
            "then synchronise once.",
        ),
        Limit(
            "memory",
            lambda arguments: MEMORY,
            "That is the graph of more than one mini-batch. Call backward() for each: it frees the graph.",
        ),
    ),
)

LESSON = Lesson(
    number="04",
    title="Train in step: synchronous SGD",
    predictions=(Prediction("weights_apart", "weights"),),
    exercises=(INITIAL_WEIGHTS, GRADIENTS, TRAIN_EPOCH, MEND_THE_STEP, ACCUMULATE),
    questions=questions("04"),
)
