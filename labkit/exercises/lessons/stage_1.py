"""A step of which each rank does its part, ZeRO's stage 1: a heart of lesson 18."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import normal, rows_of

ROWS, COLUMNS, RATE = 12, 3, 0.5
"""2, 3 and 4 ranks have as many rows each."""


def _weights(generator: torch.Generator, size: int) -> Arguments:
    """The network computes in another precision than the optimiser."""
    weights, given = normal(generator, ROWS, COLUMNS), []
    for rank in range(size):
        whole = weights.float().requires_grad_()
        whole.grad = normal(generator, ROWS, COLUMNS).float()
        master = rows_of(weights, rank, size).requires_grad_()
        given.append((whole, master, torch.optim.SGD([master], lr=RATE)))
    return given


def _stepped(divide: bool = True, summed: bool = True, gather: bool = True) -> Values:
    def values(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        weights = torch.cat([master.detach() for _, master, _ in arguments])
        gradients = [whole.grad.double() for whole, _, _ in arguments]
        own = torch.cat([rows_of(g, rank, size) for rank, g in enumerate(gradients)])
        after = weights - RATE * (sum(gradients) if summed else own) / (size if divide else 1)
        return [torch.cat([after if gather else weights, rows_of(after, r, size)]) for r in range(size)]

    return values


SHARDED_STEP = Exercise(
    task="`whole` is a weight matrix, the same on every rank, in the network's precision; "
    "`whole.grad` is this rank's own gradient. `master` is this rank's share of the rows, in the precision "
    "of its `optimizer`. Set `master.grad` to its rows of the mean gradient, make the step, and give every "
    "rank all rows of the new `whole`. Send as little as an all-reduce would.",
    stub="""\
def my_sharded_step(whole, master, optimizer):
    ...  # your code
""",
    solution="""\
def my_sharded_step(whole, master, optimizer):
    mine = torch.empty_like(whole.grad[: len(master)])
    dist.reduce_scatter_single(mine, whole.grad)
    master.grad = mine.to(master.dtype) / dist.get_world_size()
    optimizer.step()
    dist.all_gather_single(whole.data, master.detach().to(whole.dtype))
""",
    why="An all-reduce is a reduce-scatter and then an all-gather. Between the two each rank has a complete "
    "sum of its rows alone: enough to update these. What is gathered then is weights in place of gradients, "
    "and the bytes are the same.",
    hints=(
        "dist.reduce_scatter_single(mine, whole.grad) leaves in `mine` the sum of this rank's rows.",
        "Five lines: an empty `mine` like those rows, the reduce-scatter, "
        "master.grad = mine.to(master.dtype) / world_size, optimizer.step(), "
        "dist.all_gather_single(whole.data, master.detach().to(whole.dtype)).",
    ),
    given=_weights,
    answer=lambda arguments, result: torch.cat([arguments[0].detach().double(), arguments[1].detach()]),
    judge=compare(
        _stepped(),
        Mistake("The step took the sum. Divide it by the number of ranks.", _stepped(divide=False)),
        Mistake(
            "Each rank stepped along its own gradient: nothing has been added.",
            _stepped(divide=False, summed=False),
        ),
        Mistake("Each rank stepped along its own gradient, divided.", _stepped(summed=False)),
        Mistake(
            "The rows in `master` are right, and `whole` is as it was: gather the new rows of all ranks.",
            _stepped(gather=False),
        ),
        tolerance=1e-5,
    ),
    limits=(
        Limit("collectives", lambda arguments: 2, "One call adds and hands out, one gathers."),
        Limit(
            "sent",
            lambda arguments: 2 * arguments[0][0].nbytes * (len(arguments) - 1) / len(arguments),
            "An all-reduce brings each rank rows that it does not update: use reduce_scatter_single.",
        ),
    ),
    changes=("whole", "master"),
    becomes="sharded_step",
)
