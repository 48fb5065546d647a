"""Lesson 10, Do not wait: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Choice, Exercise, Lesson, Limit, Prediction, Question, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

ROUNDS = 4
"""How often each worker comes, on average."""


def _arrivals(generator: torch.Generator, size: int) -> Arguments:
    """Weights, an order in which every worker comes at least once, and a step size.

    With two workers or more a staleness above 1 occurs: only there does it matter what it is divided by.
    """
    weights, order = torch.randn(5, generator=generator), []
    while not order or (size > 2 and max(_staleness(order)) < 2):
        often = torch.randint(1, size, ((ROUNDS - 1) * (size - 1),), generator=generator)
        every = torch.cat([often, torch.arange(1, size)])
        order = every[torch.randperm(len(every), generator=generator)].tolist()
    return [(weights.clone(), order, 0.4) for _ in range(size)]


def _staleness(order: list[int]) -> list[int]:
    """Of each gradient: how many updates there were since its worker's weights were sent."""
    sent, found = {}, []
    for version, worker in enumerate(order):
        found.append(version - sent.get(worker, 0))
        sent[worker] = version + 1
    return found


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
    "list of ranks, and divide the step `rate` of each by its staleness plus 1. Answer each with the new "
    "weights, or with version -1 if its worker does not come again.",
    stub="""\
def serve_divided(weights, order, rate):
    if rank > 0:
        return work(lambda w: w - rank, len(weights))
    ...  # your code: dist.recv(message, worker) for each worker of order
    return weights
""",
    solution="""\
def serve_divided(weights, order, rate):
    if rank > 0:
        return work(lambda w: w - rank, len(weights))
    message = weights.new_empty(len(weights) + 1)
    send_weights(range(1, world_size), weights, 0)
    for version, worker in enumerate(order):
        dist.recv(message, worker)
        staleness = version - int(message[-1])
        weights -= rate / (staleness + 1) * message[:-1]
        more = worker in order[version + 1 :]
        send_weights([worker], weights, version + 1 if more else -1)
    return weights
""",
    why="The version comes back with the gradient, so the server need not remember who has which weights. A "
    "fresh gradient keeps its full step, and a stale one cannot throw the weights far.",
    hints=(
        "Begin as `serve` does: send_weights to all workers, version 0. Then one pass over `order`, with "
        "its index as the version.",
        "message[-1] is the version that the gradient is for; the staleness is the index minus that. A "
        "worker comes again if it is in order[version + 1 :].",
    ),
    given=_arrivals,
    uses=("send_weights", "work"),
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
            "version that came with the gradient.",
            _served(lambda staleness, version: 1 / (version + 1)),
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),
        Limit(
            "messages",
            lambda arguments: len(arguments) - 1 + 2 * len(arguments[0][1]),
            "The first weights for each worker, then one message there and one back for each gradient.",
        ),
    ),
)


def _gossip(generator: torch.Generator, size: int) -> Arguments:
    given = []
    for _ in range(size):
        weights = torch.randn(4, generator=generator, dtype=torch.float64)
        share = 0.5 + torch.rand(1, generator=generator, dtype=torch.float64)
        given.append(torch.cat([weights, share]))
    shifts = torch.randint(1, size, (size,), generator=generator).tolist()
    to = [(rank + shift) % size for rank, shift in enumerate(shifts)]
    return [(mine, to) for mine in given]


def _mixed(keep: float = 0.5, give: float = 0.5, mean: bool = False) -> Values:
    """What each rank has, if it keeps and gives these parts of its share."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        to, held = arguments[0][1], [mine for mine, _ in arguments]
        found = []
        for rank, mine in enumerate(held):
            came = [(keep * mine[-1], mine[:-1])]
            came += [(give * held[r][-1], held[r][:-1]) for r, other in enumerate(to) if other == rank]
            share = sum(s for s, _ in came)
            weights = sum((w if mean else s * w) for s, w in came) / (len(came) if mean else share)
            found.append(torch.cat([weights, share.reshape(1)]))
        return found

    return values


GOSSIP_ROUND = Exercise(
    task="`mine` is a vector of weights with the rank's share behind them. Rank `r` gives half of its share, "
    "with its weights, to rank `to[r]`; some ranks get several messages, others none. Return what each has "
    "after it has mixed in all that came to it.",
    stub="""\
def gossip_round(mine, to):
    ...  # your code: to.count(rank) messages will come
""",
    solution="""\
def gossip_round(mine, to):
    mine, message = mine.clone(), torch.empty_like(mine)
    mine[-1] /= 2
    sending = dist.isend(mine.clone(), to[rank])
    for _ in range(to.count(rank)):
        dist.recv(message)
        mix(mine, message)
    sending.wait()
    return mine
""",
    why="Halving first makes the message and what is kept alike. What is sent must not change while it is "
    "under way, so it is a copy. In which order messages are mixed in does not matter.",
    hints=(
        "Halve mine[-1]. Then a copy of mine is the message, and mine is what you keep.",
        "isend, because all send at once. Then dist.recv without a source, to.count(rank) times, and mix.",
    ),
    given=_gossip,
    uses=("mix",),
    judge=compare(
        _mixed(),
        Mistake(
            "The share that was given away was kept, too: there is more than R of it now.", _mixed(1.0, 0.5)
        ),
        Mistake("Nobody halved: halve the share before it is sent.", _mixed(1.0, 1.0)),
        Mistake(
            "Weights count by their share: this is their plain mean. mix does it right.", _mixed(mean=True)
        ),
        Mistake("The rank's own share was halved, but nothing that came was mixed in.", _mixed(0.5, 0.0)),
        Mistake("This is what the rank had before.", lambda arguments: [mine for mine, _ in arguments]),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Gossip is messages between two."),
        Limit("messages", lambda arguments: len(arguments), "Each rank sends one message."),
    ),
)

LESSON = Lesson(
    number="10",
    title="Do not wait: asynchronous SGD",
    predictions=(Prediction("mean_staleness", "updates"),),
    exercises=(SERVE_DIVIDED, GOSSIP_ROUND),
    questions=(
        Question(
            "One of ten workers becomes ten times as slow. The mean staleness of all updates",
            (
                Choice("grows", "That worker's gradients get older, but they get fewer at the same rate."),
                Choice("stays at 9", "Each update still makes nine gradients under way one older."),
                Choice("falls", "The others' gradients get younger, and the slow one's make up for it."),
            ),
            right="b",
        ),
        Question(
            "When does it pay not to wait?",
            (
                Choice("always", "With workers that are alike it gains little, and gradients are stale."),
                Choice(
                    "when some workers are much slower than others",
                    "A server that waits is as slow as the slowest; the others' time is lost.",
                ),
                Choice("when the step is long", "Stale gradients need shorter steps than fresh ones."),
            ),
            right="b",
        ),
        Question(
            "A rank of a gossip sends its weights and keeps its whole share. What goes wrong?",
            (
                Choice("Nothing.", "Whoever sends often would then count for more than others."),
                Choice(
                    "The shares no longer add up to R, and the mean moves.",
                    "Half given and half kept: only then is the sum of share times weights what it was.",
                ),
                Choice("Somebody waits for ever.", "Messages are as many as before; what they say is wrong."),
            ),
            right="b",
        ),
    ),
)
