"""An epoch of synchronous SGD: the loop that the learner of lesson 04 writes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.replicas import CLASSES, PARAMETERS, PIXELS, network

if TYPE_CHECKING:
    Sync = Callable[[list[torch.Tensor]], list[torch.Tensor]]
    """From all ranks' gradients to those with which each of them steps."""

RATE, SAMPLES, BATCH = 0.5, 10, 4
"""Of an epoch: its learning rate, each rank's samples, and those of a mini-batch: the last one is smaller."""


def drawn_epoch(generator: torch.Generator, size: int) -> Arguments:
    made, given = network(generator), []
    number = int(torch.randint(1, 1000, (), generator=generator))
    for _ in range(size):
        mine = copy.deepcopy(made)
        x = torch.randn(SAMPLES, PIXELS, generator=generator)
        y = torch.randint(CLASSES, (SAMPLES,), generator=generator)
        given.append((mine, torch.optim.SGD(mine.parameters(), lr=RATE), x, y, BATCH, number))
    return given


SUMMED = 3
"""The size of the world in which `sync` is given, and adds up: elsewhere it is what the stub says."""


def _with_sync(generator: torch.Generator, size: int) -> Arguments:
    given = drawn_epoch(generator, size)
    return [(*mine, _add_up) for mine in given] if size == SUMMED else given


def _add_up(model: torch.nn.Module) -> None:
    for p in model.parameters():
        dist.all_reduce(p.grad)


def mean(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    return [sum(gradients) / len(gradients)] * len(gradients)


def _as_given(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    return [sum(gradients)] * len(gradients) if len(gradients) == SUMMED else mean(gradients)


def _trained(
    sync: Sync = _as_given,
    shuffled: bool = True,
    forgets: bool = True,
    losses: bool = True,
    tensors: bool = False,
) -> Values:
    """Per rank the weights after an epoch, the losses of its steps, and how many of those are tensors."""

    def trained(arguments: Arguments) -> list[torch.Tensor]:
        models = [copy.deepcopy(made) for made, *_ in arguments]
        kept, said = [0.0] * len(models), [[] for _ in models]
        number = arguments[0][5]
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(number))
        for batch in (order if shuffled else torch.arange(SAMPLES)).split(BATCH):
            gradients = []
            for rank, (model, (_, _, x, y, *_)) in enumerate(zip(models, arguments, strict=True)):
                loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
                own = torch.autograd.grad(loss, list(model.parameters()))
                gradients.append(torch.cat([g.flatten() for g in own]) + kept[rank])
                said[rank].append(loss.item())
            gradients = sync(gradients)
            kept = [0.0] * len(models) if forgets else gradients
            for model, g in zip(models, gradients, strict=True):
                move(model, g)
        behind = [(told if losses else []) + [len(told)] * tensors for told in said]
        return [weights(m, told) for m, told in zip(models, behind, strict=True)]

    return trained


def move(model: torch.nn.Module, gradient: torch.Tensor) -> None:
    torch.nn.utils.vector_to_parameters(weights(model) - RATE * gradient, model.parameters())


def weights(model: torch.nn.Module, behind: Any = ()) -> torch.Tensor:
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    return torch.cat([weights, weights.new_tensor(behind)]) if len(behind) else weights


def _after_epoch(arguments: tuple, result: Any) -> Any:
    told = result if isinstance(result, (list, tuple)) else []
    tensors = sum(map(torch.is_tensor, told))
    return weights(arguments[0], [float(loss) for loss in told] + [tensors] * (tensors > 0))


TRAIN_EPOCH = Exercise(
    task="The loop of one process, plus one line: go once through the samples in the given order, "
    "`batch_size` at a time, and for each mini-batch do (4), (5) with `sync(model)`, and (6). Return the "
    "losses of the steps, as a list of numbers.",
    stub="""\
def my_train_epoch(model, optimizer, x, y, batch_size, epoch, sync=sync_gradients):
    losses = []
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(batch_size):
        ...  # your code
    return losses
""",
    solution="""\
def my_train_epoch(model, optimizer, x, y, batch_size, epoch, sync=sync_gradients):
    losses = []
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(batch_size):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        sync(model)
        optimizer.step()
        losses.append(loss.item())
    return losses
""",
    why="Between backward() and step() stands the one line that makes one network of many. The permutation "
    "is drawn from the epoch's number, so it is the same on every rank, and another in each epoch.",
    hints=(
        "x[batch], y[batch] are the mini-batch. Begin as for one process: zero_grad, loss, backward.",
        "sync(model) after backward, before optimizer.step(). Then losses.append(loss.item()).",
    ),
    given=_with_sync,
    answer=_after_epoch,
    judge=compare(
        _trained(),
        Mistake(
            "The weights are right, the losses are not: append loss.item() in each step, and return them.",
            _trained(losses=False),
        ),
        Mistake(
            "The losses are tensors, each with the graph of its step. Return numbers: loss.item().",
            _trained(tensors=True),
        ),
        Mistake(
            "Call `sync(model)`, the function that is given. Here it adds up; sync_gradients takes the mean.",
            _trained(mean),
        ),
        Mistake(
            "Each rank has trained alone: sync(model) belongs between backward() and step().",
            _trained(lambda gradients: gradients),
        ),
        Mistake(
            "The gradients of earlier mini-batches are in there: begin each step with optimizer.zero_grad().",
            _trained(forgets=False),
        ),
        Mistake(
            "The samples were taken as they lie. `batch` holds the places of this mini-batch: x[batch].",
            _trained(shuffled=False),
        ),
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: PARAMETERS * -(-SAMPLES // BATCH),
            "One sync for each mini-batch is enough.",
        ),
    ),
    uses=("sync_gradients",),
    becomes="train_epoch",
    changes=("model", "optimizer"),
)
