"""A server that does not wait: the heart of lesson 10."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import close, show
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons import notices

if TYPE_CHECKING:
    from collections.abc import Callable

RATE = 0.3
PATIENCE = 2.0
"""Seconds for which a worker asks why nobody takes its gradient, before it waits without asking."""


class UntakenGradientError(RuntimeError):
    """The server has dismissed a worker, or has ended, before it took that worker's last gradient."""


def staleness_of(order: list[int]) -> list[int]:
    """Of each gradient: how many updates there were since its worker's weights were sent."""
    sent, found = {}, []
    for version, worker in enumerate(order):
        found.append(version - sent.get(worker, 0))
        sent[worker] = version + 1
    return found


def _step(weights: torch.Tensor, gradient: torch.Tensor, staleness: int) -> None:
    weights -= RATE * 0.8**staleness * gradient


def _gradient(worker: int, weights: torch.Tensor) -> torch.Tensor:
    """Each worker's minimum is another one, so that it matters whose gradient came when."""
    return weights - worker


def _updates(generator: torch.Generator, size: int) -> Arguments:
    weights = torch.randn(5, generator=generator)
    updates = (size - 1) * int(torch.randint(4, 8, (), generator=generator)) + 1
    return [(weights.clone(), updates, _step)] * size


def _use(serve: Callable[..., Any], arguments: tuple) -> Any:
    """On rank 0 the learner's server, on the others workers."""
    rank = dist.get_rank()
    run = notices.run_of("my_serve", int(arguments[0].view(torch.int32)[0]))  # drawn, so another each time
    if rank:
        return _work(partial(_gradient, rank), len(arguments[0]), f"{run}/served")
    history = serve(*arguments)
    notices.tell(f"{run}/served")
    return history


def _work(gradient: Callable[[torch.Tensor], torch.Tensor], size: int, served: str) -> None:
    """labkit.algorithms.work, with the same messages; a gradient that nobody takes is an error here."""
    from labkit.algorithms.parameter_server import ALL, FINISH, PUSH

    weights, header = torch.empty(size), torch.empty(2, dtype=torch.int64)
    dist.recv(header, 0)
    while header[0] != FINISH:
        dist.recv(weights, 0)
        found = gradient(weights)
        pushing = dist.isend(torch.tensor([PUSH, ALL]), 0)
        answer = dist.irecv(header, 0)
        _until_taken(pushing, answer, served)
        dist.send(found, 0)
        answer.wait()


def _until_taken(pushing: Any, answer: Any, served: str) -> None:
    """Wait for it; UntakenGradientError if the server says something else before, or has ended."""
    begun, ended = time.monotonic(), 0.0
    while not pushing.is_completed() and time.monotonic() < begun + PATIENCE:
        time.sleep(0.0005)
        if not ended and (answer.is_completed() or notices.heard(served, seconds=0)):
            ended = time.monotonic()
        if ended and time.monotonic() > ended + PATIENCE / 4:  # what was taken is soon known here
            raise UntakenGradientError(
                f"rank {dist.get_rank()} has computed a gradient that nobody takes: the server sent it "
                "weights, and then wanted no more of it"
            )
    pushing.wait()


def _replayed(weights: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The weights after the updates of these workers, in this order."""
    weights, pulled = weights.clone(), dict.fromkeys(order, weights.clone())
    for worker, staleness in zip(order, staleness_of(order), strict=True):
        _step(weights, _gradient(worker, pulled[worker]), staleness)
        pulled[worker] = weights.clone()
    return weights


def _judge(answers: Answers) -> str:
    weights, updates, _ = answers.arguments[0]
    after, history = answers.found[0]
    if not isinstance(history, list) or not all(isinstance(h, list) and len(h) == 2 for h in history):
        return f"rank 0 returned {show(history)}\nReturn a list: for each update (worker, staleness)."
    if len(history) != updates:
        return f"rank 0 returned {len(history)} pairs of (worker, staleness) for {updates} updates"
    order, said = map(list, zip(*history, strict=True))
    if not set(order) <= set(range(1, answers.size)):
        return f"rank 0 names the workers {order}\nA pair is (worker, staleness), in this order."
    if wrong := _wrong_staleness(said, staleness_of(order), order):
        return wrong
    if not close(after, _replayed(weights, order)):
        return (
            f"rank 0 has the weights {show(after)}, and after these updates they are "
            f"{show(_replayed(weights, order))}\nCall step(weights, gradient, staleness) once for each "
            "gradient, and answer with the weights after it."
        )
    return ""


def _wrong_staleness(said: list[int], right: list[int], order: list[int]) -> str:
    """The first update whose staleness is wrong, and why, in a sentence; or ""."""
    if said == right:
        return ""
    n = next(n for n, pair in enumerate(zip(said, right, strict=True)) if pair[0] != pair[1])
    where = f"update {n}, by rank {order[n]}, has staleness {right[n]}, and rank 0 says {said[n]}"
    first = [order.index(worker) for worker in set(order)]
    late = [s - r for i, (s, r) in enumerate(zip(said, right, strict=True)) if i not in first]
    if set(late) == {1}:
        return (
            f"{where}\nThe staleness is one too high: the weights that you answer with are those after this "
            "update, so their version is version + 1."
        )
    if {s + r for s, r in zip(said, right, strict=True)} == {0}:
        return f"{where}\nThe sign is wrong: the version now minus the version that the gradient is for."
    if said == list(range(len(said))):
        return f"{where}\nThat is the version now. Subtract that of the weights that its worker had."
    return f"{where}\nIt is the version now minus that of the weights that its worker had."


MY_SERVE = Exercise(
    task="The server of asynchronous SGD, on rank 0. For each of `updates` gradients, in the order in which "
    "they come: work out its staleness, call `step(weights, gradient, staleness)`, and answer its worker "
    "with the new weights, or with `finish` if it is not needed any more. Return a list of `(worker, "
    "staleness)`.",
    stub="""\
def my_serve(weights, updates, step):  # on rank 0; the others call work
    workers, history = range(1, dist.get_world_size()), []
    send_weights(workers, weights)
    has = dict.fromkeys(workers, 0)  # of each worker: the version of its weights
    for version in range(updates):
        worker, verb, gradient = receive(weights)
        ...  # your code
    return history
""",
    solution="""\
def my_serve(weights, updates, step):
    workers, history = range(1, dist.get_world_size()), []
    send_weights(workers, weights)
    has = dict.fromkeys(workers, 0)  # of each worker: the version of its weights
    for version in range(updates):
        worker, verb, gradient = receive(weights)
        staleness = version - has[worker]
        step(weights, gradient, staleness)
        history.append((worker, staleness))
        if version < updates - len(workers):
            send_weights([worker], weights)
            has[worker] = version + 1
        else:
            finish([worker])
    return history
""",
    why="Each worker has one gradient under way, so W gradients are still to come when a worker asks for the "
    "last weights: whoever comes among the last W is dismissed. Nobody is waited for by name, and the "
    "version that a worker has says how old its gradient is.",
    hints=(
        "has[worker] is the version of the weights that the gradient was computed with. How many updates lie "
        "between that and this one, whose version is `version`?",
        "send_weights([worker], weights) answers, and the worker then has version + 1: note it. Each worker "
        "has one gradient under way: with W workers, from which update on is nobody needed any more?",
        "The worker is needed again if version < updates - len(workers); else finish([worker]).",
    ),
    given=_updates,
    answer=lambda arguments, result: [arguments[0], result],
    judge=_judge,
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),
        Limit(
            "messages",
            lambda arguments: len(arguments) - 1 + 4 * arguments[0][1],
            "Weights and gradients are a header and a vector each, and finish is a header.",
        ),
    ),
    uses=("send_weights", "finish", "parameter_server.receive"),
    becomes="serve",
    changes=("weights",),
    use=_use,
)
