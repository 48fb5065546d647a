"""A step with the gradient of the last micro-batch alone: the find-the-bug of lesson 18."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

ROWS, COLUMNS, BATCHES, RATE = 12, 3, 3, 0.5


def _given(generator: torch.Generator, size: int) -> Arguments:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights, given = normal(ROWS, COLUMNS), []
    for rank in range(size):
        whole = weights.clone().requires_grad_()
        master = weights.chunk(size)[rank].clone().requires_grad_()
        batches = [(normal(2, COLUMNS), normal(2, ROWS)) for _ in range(BATCHES)]
        given.append((whole, master, batches, torch.optim.SGD([master], lr=RATE)))
    return given


def _after(factors: tuple[float, ...]) -> Values:
    """The weights after a step along the gradients of the micro-batches, each times its factor."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        weights = torch.cat([master.detach() for _, master, _, _ in arguments])
        total = torch.zeros_like(weights)
        for whole, _, batches, _ in arguments:
            for factor, (x, y) in zip(factors, batches, strict=True):
                loss = (x @ whole.T - y).square().mean() / BATCHES
                total += factor / size * torch.autograd.grad(loss, whole)[0]
        return [weights - RATE * total] * size

    return values


ACCUMULATE_SHARDED = Exercise(
    task="Gradient accumulation at stage 2. Each rank has its `batches`; one step shall follow the mean over "
    "all micro-batches of all ranks. It runs without an error, the loss falls, and the weights are not those "
    "of one process. **Find the bug and mend it**, with at most one reduce-scatter for each micro-batch.",
    stub="""\
def accumulate_sharded(whole, master, batches, optimizer):
    for x, y in batches:
        loss = (x @ whole.T - y).square().mean() / len(batches)
        loss.backward()
        mine = torch.empty_like(master)
        dist.reduce_scatter_single(mine, whole.grad)
        whole.grad = None
        master.grad = mine / dist.get_world_size()
    optimizer.step()
    dist.all_gather_single(whole.data, master.detach())
""",
    solution="""\
def accumulate_sharded(whole, master, batches, optimizer):
    master.grad = torch.zeros_like(master)
    for x, y in batches:
        loss = (x @ whole.T - y).square().mean() / len(batches)
        loss.backward()
        mine = torch.empty_like(master)
        dist.reduce_scatter_single(mine, whole.grad)
        whole.grad = None
        master.grad += mine / dist.get_world_size()
    optimizer.step()
    dist.all_gather_single(whole.data, master.detach())
""",
    why="backward() adds to whole.grad, but that is freed each time. So the parts must be added up, and the "
    "assignment put each in the place of the one before: the shard was stepped with the last micro-batch's "
    "gradient alone, a third of the step in a direction of its own.",
    hints=(
        "Which micro-batches does master.grad know of when optimizer.step() is called?",
        "Begin with zeros, and add each part to master.grad.",
    ),
    given=_given,
    answer=lambda arguments, result: arguments[0].detach(),
    judge=compare(
        _after((1, 1, 1)),
        Mistake("This step knows the last micro-batch alone: the parts must be added up.", _after((0, 0, 1))),
        Mistake("This step knows the first micro-batch alone.", _after((1, 0, 0))),
        Mistake(
            "Earlier micro-batches count several times: share whole.grad when all are in it, or free it "
            "after each.",
            _after((3, 2, 1)),
        ),
        Mistake("This is the sum over the micro-batches. Take their mean.", _after((BATCHES,) * 3)),
        Mistake("The weights are as they were.", _after((0, 0, 0))),
        tolerance=1e-9,
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: BATCHES + 1,
            "One reduce-scatter for each micro-batch, and one all-gather at the end.",
        ),
    ),
    changes=("whole", "master"),
)
