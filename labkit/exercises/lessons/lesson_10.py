"""Lesson 10, Do not wait: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.gossiping import GOSSIP_ROUND
from labkit.exercises.lessons.server import MY_SERVE, staleness_of

ROUNDS = 4
"""How often each worker comes, on average."""


def _arrivals(generator: torch.Generator, size: int) -> Arguments:
    """Weights, an order in which every worker comes at least once, and a step size.

    With two workers or more a staleness above 1 occurs: only there does it matter what it is divided by.
    """
    weights, order = torch.randn(5, generator=generator), []
    while not order or (size > 2 and max(staleness_of(order)) < 2):
        often = torch.randint(1, size, ((ROUNDS - 1) * (size - 1),), generator=generator)
        every = torch.cat([often, torch.arange(1, size)])
        order = every[torch.randperm(len(every), generator=generator)].tolist()
    return [(weights.clone(), order, 0.4) for _ in range(size)]


def _served(part_of: Callable[[int, int], float], answered: int = 1) -> Values:
    """What every rank returns for steps of part_of(staleness, version) of the rate; the server answers a
    gradient with its version plus `answered`."""

    def values(arguments: Arguments) -> list[torch.Tensor | int]:
        weights, order, rate = arguments[0]
        weights = weights.clone()
        pulled = {worker: (0, weights.clone()) for worker in order}
        for version, worker in enumerate(order):
            then, theirs = pulled[worker]
            weights -= rate * part_of(version - then, version) * (theirs - worker)
            pulled[worker] = (version + answered, weights.clone())
        return [weights, *(order.count(worker) for worker in range(1, len(arguments)))]

    return values


SERVE_DIVIDED = Exercise(
    task="Rank 0 is the server; the workers' part is there. Take the gradients in the order of `order`, a "
    "list of ranks in which each worker comes at least once. Divide the step `rate` of each by its staleness "
    "plus 1, and change `weights` in place. Answer each gradient with the new weights, and a worker's last "
    "one with `finish`.",
    stub="""\
def serve_divided(weights, order, rate):
    if rank > 0:
        return work(lambda w: w - rank, len(weights))
    ...  # your code: receive(weights, worker) for each worker of order
    return weights
""",
    solution="""\
def serve_divided(weights, order, rate):
    if rank > 0:
        return work(lambda w: w - rank, len(weights))
    send_weights(range(1, world_size), weights)
    has = dict.fromkeys(order, 0)
    for version, worker in enumerate(order):
        worker, verb, gradient = receive(weights, worker)
        weights -= rate / (version - has[worker] + 1) * gradient
        if worker in order[version + 1 :]:
            send_weights([worker], weights)
            has[worker] = version + 1
        else:
            finish([worker])
    return weights
""",
    why="The server remembers which version each worker has, and so how old its gradient is. A fresh "
    "gradient keeps its full step, and a stale one cannot throw the weights far.",
    hints=(
        "Begin as `serve` does: send_weights to all workers, who then have version 0. Then one pass over "
        "`order`, with its index as the version.",
        "The staleness is the index minus the version that the worker has. A worker comes again if it is in "
        "order[version + 1 :].",
    ),
    given=_arrivals,
    uses=("send_weights", "work", "finish", "parameter_server.receive"),
    changes=("weights",),
    judge=compare(
        _served(lambda staleness, version: 1 / (staleness + 1)),
        Mistake(
            "Every step has its full length. Divide it by staleness + 1.",
            _served(lambda staleness, version: 1),
        ),
        Mistake(
            "A fresh gradient has staleness 0, and one that is one update old has 1: divide by the staleness "
            "plus 1.",
            _served(lambda staleness, version: 1 / max(1, staleness)),
        ),
        Mistake(
            "The staleness is one too high: the weights that you answer with are those after this update, "
            "so their version is the index plus 1.",
            _served(lambda staleness, version: 1 / (staleness + 1), answered=0),
        ),
        Mistake(
            "Each step is divided by the number of updates so far. The staleness is counted from the "
            "version that its worker has.",
            _served(lambda staleness, version: 1 / (version + 1)),
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),
        Limit(
            "messages",
            lambda arguments: len(arguments) - 1 + 4 * len(arguments[0][1]),
            "Weights and gradients are a header and a vector each, and finish is a header.",
            least=lambda arguments: len(arguments) - 1 + 4 * len(arguments[0][1]),
            too_little="The workers compute the gradients: send them weights, and receive what they send.",
        ),
    ),
)


LESSON = Lesson(
    number="10",
    title="Do not wait: asynchronous SGD",
    predictions=(Prediction("mean_staleness", "updates"),),
    exercises=(MY_SERVE, GOSSIP_ROUND, SERVE_DIVIDED),
    questions=questions("10"),
)
