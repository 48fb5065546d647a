"""Steps on each rank alone, then the mean of the weights: the heart of lesson 14."""

from __future__ import annotations

import copy
from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import linear

ROUNDS, SAMPLES, PIXELS, HIDDEN, CLASSES, RATE = 2, 4, 6, 5, 3, 0.2


def _given(generator: torch.Generator, size: int) -> Arguments:
    """A network, the same on all ranks, an optimiser, batches of each rank's own, and N."""
    steps = int(torch.randint(2, 4, (), generator=generator))
    layers = linear(generator, PIXELS, HIDDEN), torch.nn.Tanh(), linear(generator, HIDDEN, CLASSES)
    network, given = torch.nn.Sequential(*layers), []
    for _ in range(size):
        model, shape = copy.deepcopy(network), (ROUNDS * steps, SAMPLES)
        x = torch.randn(*shape, PIXELS, generator=generator)
        y = torch.randint(CLASSES, shape, generator=generator)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        given.append((model, optimizer, list(zip(x, y, strict=True)), steps))
    return given


def _weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def _trained(
    arguments: Arguments,
    after: Callable[[int, list[torch.Tensor]], list[torch.Tensor] | None],
    share_gradients: bool = False,
) -> list[torch.Tensor]:
    """The weights of all ranks in the end; `after` each step it may replace those that there are."""
    models = [copy.deepcopy(model) for model, *_ in arguments]
    for step in range(len(arguments[0][2])):
        found = []
        for model, (*_, batches, _) in zip(models, arguments, strict=True):
            loss = torch.nn.functional.cross_entropy(model(batches[step][0]), batches[step][1])
            found.append(
                torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
            )
        if share_gradients:
            found = [sum(found) / len(found)] * len(found)
        moved = [_weights(m) - RATE * g for m, g in zip(models, found, strict=True)]
        for model, weights in zip(models, after(step + 1, moved) or moved, strict=True):
            torch.nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    return [_weights(model) for model in models]


def _when(due: Callable[[int, int, int], bool], times: Callable[[int], float] = lambda size: 1) -> Values:
    """The mean of the weights, times a factor, after steps that are due: (step, N, all steps)."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size, steps, last = len(arguments), arguments[0][3], len(arguments[0][2])
        return _trained(
            arguments,
            lambda step, moved: [times(size) * sum(moved) / size] * size if due(step, steps, last) else None,
        )

    return values


def _due(step: int, steps: int, last: int) -> bool:
    return step % steps == 0


LOCAL_STEPS = Exercise(
    task="Each rank trains `model` with `optimizer` on its own `batches`, a list of `(x, y)`, with the "
    "cross-entropy as loss. After every `N` batches all ranks replace their weights by the mean over the "
    "ranks, with one collective call each time. The number of batches is a multiple of `N`.",
    stub="""\
def my_local_steps(model, optimizer, batches, N):
    ...  # your code
""",
    solution="""\
def my_local_steps(model, optimizer, batches, N):
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % N == 0:
            weights = torch.cat([p.detach().flatten() for p in model.parameters()])
            dist.all_reduce(weights)
            weights /= dist.get_world_size()
            sizes = [p.numel() for p in model.parameters()]
            for p, mean in zip(model.parameters(), weights.split(sizes)):
                p.data.copy_(mean.view_as(p))
""",
    why="Between two averages a rank needs nobody. With N = 1 it is synchronous SGD: the mean of the weights "
    "after one step from the same place is a step along the mean gradient.",
    hints=(
        "The loop is that of one process. Count the steps; when the count is a multiple of N, average.",
        "As in lesson 04's exercise: one flat tensor of all p.data, one all_reduce, the division, and copy "
        "the parts back into p.data.",
    ),
    given=_given,
    answer=lambda arguments, result: _weights(arguments[0]),
    judge=compare(
        _when(_due),
        Mistake("The ranks never meet: these are each rank's own weights.", _when(lambda *_: False)),
        Mistake(
            "The ranks meet once, at the end: average after every N batches.",
            _when(lambda step, steps, last: step == last),
        ),
        Mistake(
            "The last average is missing: count from 1, so that the N-th batch is a multiple of N.",
            _when(lambda step, steps, last: step % steps == 0 and step < last),
        ),
        Mistake(
            "You average after the first of N batches: count from 1, and average after the N-th.",
            _when(lambda step, steps, last: step % steps == 1),
        ),
        Mistake(
            "This is the sum of the weights. Divide it by the number of ranks.",
            _when(_due, lambda size: size),
        ),
        Mistake(
            "You average the gradients of every step. Here the weights are averaged, every N steps.",
            lambda arguments: _trained(arguments, lambda step, moved: None, share_gradients=True),
        ),
        Mistake(
            "Nothing was trained: the weights are those of the start.", lambda a: [_weights(m) for m, *_ in a]
        ),
    ),
    limits=(Limit("collectives", lambda arguments: ROUNDS, "One flat tensor, every N batches."),),
    becomes="local_steps",
    changes=("model", "optimizer"),
)
