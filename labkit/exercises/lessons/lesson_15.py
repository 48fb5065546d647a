"""Lesson 15, Cut the model by layers: its prediction, exercises and questions."""

from __future__ import annotations

import copy

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
)
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.cuts import equal, fullest, least, wrong_cut
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
    """Activations over each boundary; gradients over those above the first stage that learns."""
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
        "Ranks below `frozen` are done after the forward part. Rank `frozen` receives a gradient, goes back "
        "and sends none: only ranks above it ask for x.grad.",
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
            "The forward part needs one for each boundary. Gradients need to come down to stage `frozen`, "
            "and no further.",
        ),
    ),
)


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """Sizes for which equal numbers of layers are not the best cut."""
    while True:
        many = int(torch.randint(6, 11, (), generator=generator))
        sizes = torch.randint(1, 20, (many,), generator=generator).tolist()
        if fullest(equal(many, size), sizes) > least(sizes, size):
            return [(sizes, size)] * size


def _judged(answers: Answers) -> str:
    sizes, ranks = answers.arguments[0]
    for rank, found in enumerate(answers.found):
        problem = wrong_cut(found, sizes, ranks)
        if problem:
            return f"rank {rank} is wrong\n  of {sizes} it made {found}\n{problem}"
    if any(found != answers.found[0] for found in answers.found):
        return f"the ranks differ: rank 0 has {answers.found[0]}; all must cut in the same places"
    return ""


CUT_FOR_MEMORY = Exercise(
    task="`sizes` are the megabytes that each layer needs, whole numbers. Cut the layers, in their order, so "
    "that the fullest rank holds as little as possible. Return the number of layers of each rank, the same "
    "list on every rank, without a message.",
    stub="""\
def cut_for_memory(sizes, ranks):
    ...  # your code
""",
    solution="""\
def cut_for_memory(sizes, ranks):
    for limit in range(max(sizes), sum(sizes) + 1):
        counts, room = [0], limit
        for size in sizes:
            if size > room:
                counts, room = [*counts, 0], limit
            counts[-1] += 1
            room -= size
        if len(counts) <= ranks:
            return counts + [0] * (ranks - len(counts))
""",
    why="Fill each rank up to a limit before the next one begins: no cut needs fewer ranks for that limit. "
    "The first limit for which the ranks suffice is the least. All ranks know the sizes, so all find the "
    "same cut, and need not talk.",
    hints=(
        "Turn it round: if no rank may hold more than so many megabytes, how many ranks are needed? Fill one "
        "after the other.",
        "Begin with a limit of max(sizes) and raise it by 1 until the ranks suffice.",
    ),
    given=_sizes,
    judge=_judged,
    limits=(
        Limit("collectives", lambda arguments: 0, "Every rank knows the sizes: each can find the cut alone."),
        Limit("messages", lambda arguments: 0, "Every rank knows the sizes: each can find the cut alone."),
    ),
)

LESSON = Lesson(
    number="15",
    title="Cut the model by layers",
    predictions=(Prediction("ranks_idle", "%"),),
    exercises=(FINE_TUNE, CUT_FOR_MEMORY),
    questions=(
        Question(
            "Five layers move from one device to five, one each. What gets less?",
            (
                Choice("the time of a step", "Stages wait for each other, and messages come on top."),
                Choice("the memory on each device", "Parameters, gradients and activations are divided."),
                Choice("the multiplications", "They are the same, in the same order, elsewhere."),
            ),
            right="b",
        ),
        Question(
            "The whole batch becomes 8 times as large. What is sent in a step then?",
            (
                Choice(
                    "by layers and by data: 8 times as much", "Gradients of parameters do not grow with B."
                ),
                Choice("by data 8 times as much", "Data parallelism sends P numbers, whatever the batch."),
                Choice("by layers 8 times as much", "B a numbers cross each cut; P is still P."),
            ),
            right="c",
        ),
        Question(
            "Four paths of a block take 1, 8, 1 and 2 ms. How many times as fast are four devices?",
            (
                Choice("1.5 times, at most", "12 ms one after the other, and the longest takes 8."),
                Choice("4 times", "Only if all paths were equally long."),
                Choice("3 times", "The mean path takes 3 ms, but the block is done when the longest is."),
            ),
            right="a",
        ),
    ),
)
