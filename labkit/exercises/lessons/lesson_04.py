"""Lesson 04, Train in step: its prediction, exercises and questions."""

from __future__ import annotations

import copy
from collections.abc import Callable

from labkit.exercises.describe import Arguments, Choice, Exercise, Lesson, Limit, Prediction, Question, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient, linear

PIXELS, HIDDEN, CLASSES = 6, 5, 3
PARAMETERS = 4
"""Tensors of the network: two layers with weight and bias."""
BATCHES, SAMPLES = 3, 4


def _network(generator: torch.Generator) -> torch.nn.Sequential:
    first, last = linear(generator, PIXELS, HIDDEN), linear(generator, HIDDEN, CLASSES)
    network = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    with torch.no_grad():
        for p in network.parameters():
            p /= 2
    return network


def _with_gradients(generator: torch.Generator, size: int) -> Arguments:
    network, given = _network(generator), []
    for _ in range(size):
        given.append((copy.deepcopy(network),))
        for p in given[-1][0].parameters():
            p.grad = torch.randn(p.shape, generator=generator)
    return given


def _own(arguments: Arguments) -> list[torch.Tensor]:
    return [gradient(network) for (network,) in arguments]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(_own(arguments))


def _mean(arguments: Arguments) -> torch.Tensor:
    return _sum(arguments) / len(arguments)


SYNC_IN_ONE = Exercise(
    task="`sync_gradients` calls `all_reduce` for each of 4 parameters, and each call costs latency. Do what "
    "it does with one collective call.",
    stub="def sync_in_one(model):\n    ...  # your code\n",
    solution="""\
def sync_in_one(model):
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(mean.view_as(g))
""",
    why="Each call costs latency, so few long tensors are faster than many short ones. "
    "DistributedDataParallel does this with buckets of gradients.",
    hints=(
        "torch.cat the flattened gradients: one tensor, one call.",
        "The sum is in your new tensor, the optimiser reads p.grad. Split the tensor by p.grad.numel() "
        "and copy each part back.",
    ),
    given=_with_gradients,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=compare(
        everywhere(_mean),
        Mistake("This is the sum. Divide it by the number of ranks.", everywhere(_sum)),
        Mistake(
            "This is the sum divided by 4. Divide it by the number of ranks, once: dist.get_world_size().",
            everywhere(lambda arguments: _sum(arguments) / 4),
        ),
        Mistake(
            "The rank's own gradients are still in p.grad. What all_reduce returned into a new tensor "
            "must be copied back.",
            _own,
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 1, "One tensor that holds all gradients needs one call."),
    ),
)


def _with_batches(generator: torch.Generator, size: int) -> Arguments:
    network, given = _network(generator), []
    for _ in range(size):
        x = torch.randn(BATCHES, SAMPLES, PIXELS, generator=generator)
        y = torch.randint(CLASSES, (BATCHES, SAMPLES), generator=generator)
        given.append((copy.deepcopy(network), list(zip(x, y, strict=True))))
    return given


def _gradient(network: torch.nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Of the mean loss over all samples of these mini-batches; the network is left as it was."""
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    loss = torch.nn.functional.cross_entropy(network(x), y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])


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
    "one size. Leave in `p.grad` the gradient of the mean loss over all mini-batches of all ranks, and "
    "synchronise once.",
    stub="def accumulate(model, batches):\n    ...  # your code\n",
    solution="""\
def accumulate(model, batches):
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
    ),
)

LESSON = Lesson(
    number="04",
    title="Train in step: synchronous SGD",
    predictions=(Prediction("weights_apart", "weights"),),
    exercises=(SYNC_IN_ONE, ACCUMULATE),
    questions=(
        Question(
            "After 450 steps all replicas are equal bit for bit. What does that prove?",
            (
                Choice(
                    "The gradients are averaged correctly.",
                    "Without the division the replicas stayed equal, too, and learnt nothing.",
                ),
                Choice(
                    "All ranks made the same updates from the same start.",
                    "It proves that, and no more: compare one of them with one process as well.",
                ),
                Choice(
                    "Every sample was used.",
                    "When each rank shuffled for itself, almost a third never was; the replicas were equal.",
                ),
            ),
            right="b",
        ),
        Question(
            "You forgot the initial sync. What happens to the distance between two replicas?",
            (
                Choice(
                    "It shrinks.",
                    "The gradient is shared, so it moves both alike; it cannot change a difference.",
                ),
                Choice(
                    "It stays.",
                    "Both make the same move in each step, so what lies between them does not change.",
                ),
                Choice(
                    "It grows.", "Only unlike updates drive replicas apart, and all of them make the same."
                ),
            ),
            right="b",
        ),
        Question(
            "You train with DistributedSampler and shuffle=True, and never call set_epoch. What happens?",
            (
                Choice(
                    "The ranks' parts overlap.",
                    "All ranks draw the same permutation, so each epoch is split as it should be.",
                ),
                Choice(
                    "The replicas drift apart.",
                    "Whatever the order, all ranks apply the same mean gradient.",
                ),
                Choice(
                    "Every epoch brings the same samples in the same order.",
                    "The permutation is drawn from seed plus epoch; the epoch stays 0. Nothing complains.",
                ),
            ),
            right="c",
        ),
    ),
)
