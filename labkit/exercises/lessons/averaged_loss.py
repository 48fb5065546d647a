"""A step that averages the loss and not the gradient: the find-the-bug of lesson 04."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.epoch import BATCH, RATE, drawn_epoch, mean, weights
from labkit.exercises.lessons.replicas import PARAMETERS

if TYPE_CHECKING:
    from labkit.exercises.lessons.epoch import Sync


def _adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Not linear in the gradient: a mean of steps is not a step along the mean. Nor does it hide a factor."""
    return torch.optim.Adam(model.parameters(), lr=RATE, eps=0.1)


def _one_batch(generator: torch.Generator, size: int) -> Arguments:
    return [
        (model, _adam(model), x[:BATCH], y[:BATCH]) for model, _, x, y, *_ in drawn_epoch(generator, size)
    ]


def _stepped(sync: Sync) -> Values:
    def stepped(arguments: Arguments) -> list[torch.Tensor]:
        models, gradients = [copy.deepcopy(model) for model, *_ in arguments], []
        for model, (_, _, x, y) in zip(models, arguments, strict=True):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            own = torch.autograd.grad(loss, list(model.parameters()))
            gradients.append(torch.cat([g.flatten() for g in own]))
        for model, g in zip(models, sync(gradients), strict=True):
            for p, part in zip(model.parameters(), g.split(_lengths(model)), strict=True):
                p.grad = part.view_as(p).clone()
            _adam(model).step()
        return [weights(model) for model in models]

    return stepped


def _lengths(model: torch.nn.Module) -> list[int]:
    return [p.numel() for p in model.parameters()]


_alone = _stepped(lambda gradients: gradients)


MEND_THE_STEP = Exercise(
    task="This step is to take the mean over all ranks. It runs without an error, its loss falls, and after "
    "it the replicas differ. **Find the bug and mend it.** Only the weights are checked, not what the "
    "function returns.",
    stub="""\
def mend_the_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    with torch.no_grad():
        dist.all_reduce(loss)
        loss /= dist.get_world_size()  # the mean over all ranks
    loss.backward()
    optimizer.step()
""",
    solution="""\
def mend_the_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sync_gradients(model)
    optimizer.step()
""",
    why="The loss is one number. Its mean says nothing about how the other ranks' losses change with the "
    "weights: backward() goes through this rank's graph alone. What has to be averaged is the gradient.",
    hints=(
        "Through whose samples does backward() go? Does it reach another rank's?",
        "Leave the loss alone. Between backward() and step(): sync_gradients(model).",
    ),
    given=_one_batch,
    answer=lambda arguments, result: weights(arguments[0]),
    judge=compare(
        _stepped(mean),
        Mistake(
            "Each rank has stepped with its own gradient. The mean of the losses is a number, and backward() "
            "goes through this rank's samples only: average the gradients.",
            _alone,
        ),
        Mistake(
            "Each rank has stepped with its own gradient, divided by the number of ranks: add them up first.",
            _stepped(lambda gradients: [g / len(gradients) for g in gradients]),
        ),
        Mistake(
            "This is a step along the sum of the gradients. Divide it by the number of ranks.",
            _stepped(lambda gradients: [sum(gradients)] * len(gradients)),
        ),
        Mistake(
            "The mean gradient was divided by the number of ranks once more: sync_gradients divides already.",
            _stepped(lambda gradients: [g / len(gradients) for g in mean(gradients)]),
        ),
        Mistake(
            "Each rank has stepped alone, and then the weights were averaged. Only for plain SGD that is the "
            "same: average the gradients, before optimizer.step().",
            lambda arguments: mean(_alone(arguments)),
        ),
        Mistake(
            "The weights are as they were: optimizer.step() comes last.",
            lambda a: [weights(m) for m, *_ in a],
        ),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: PARAMETERS + 1,
            "One all_reduce for each parameter, and one for the loss if you want to show it.",
        ),
    ),
    uses=("sync_gradients",),
    changes=("model", "optimizer"),
)
