"""A server with backup workers that uses what comes too late: the find-the-bug of lesson 11."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import show
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons import notices

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATES, QUICK, LATE = 24, 0.004, 2.0
"""Updates; seconds of a gradient; and how long the late worker and the server wait for each other at most."""
UNDER_WAY, AWAITED = UPDATES // 8, UPDATES // 4
"""After how many updates the late worker's first gradient may leave, and after how many it is waited for."""


class Step:
    """Adds 1 to the weights, so that they are the number of updates; keeps the gradients that it got.

    It sees to it that the late gradient comes in the middle, however fast server and workers are.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.run = seed, ""
        self.seen: list[float] = []

    def __call__(self, weights: torch.Tensor, gradient: torch.Tensor, staleness: int) -> None:
        self.seen.append(gradient.mean().item())
        weights += 1
        if len(self.seen) == UNDER_WAY:
            notices.tell(f"{self.run}/under way")
        elif len(self.seen) == AWAITED:
            notices.heard(f"{self.run}/late", seconds=LATE)


def _one_is_late(generator: torch.Generator, size: int) -> Arguments:
    """All workers but one are waited for; who is late is drawn, and so is the number of weights."""
    late = int(torch.randint(1, size, (), generator=generator))
    n = int(torch.randint(3, 9, (), generator=generator))
    seed = generator.initial_seed()
    return [(torch.zeros(n), UPDATES, size - 2, Step(seed), late) for _ in range(size)]


def _use(serve: Callable[..., Any], arguments: tuple) -> Any:
    """On rank 0 the learner's server; a worker's gradient is the weights that it was computed with."""
    from labkit.algorithms import work

    weights, updates, needed, step, late = arguments
    step.run = notices.run_of("serve_fresh", step.seed)
    rank = torch.distributed.get_rank()
    if rank == 0:
        return serve(weights, updates, needed, step)
    is_late = rank == late

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        nonlocal is_late
        if is_late:
            notices.heard(f"{step.run}/under way", seconds=LATE)
            notices.tell(f"{step.run}/late")
            is_late = False
        time.sleep(QUICK)
        return weights

    return work(gradient, len(weights))


def _judge(answers: Answers) -> str:
    seen = answers.found[0]
    if len(seen) != UPDATES:
        return f"rank 0 made {len(seen)} updates, and {UPDATES} were asked for"
    for version, found in enumerate(seen):
        if abs(found - version) > 1e-6:
            return (
                f"update {version} is wrong: a gradient here is the number of updates before its weights "
                f"were sent, and their mean is {show(found)}\nA gradient of older weights is in it. Remember "
                "who has the weights of now: who is too late gets them, and its gradient is dropped."
            )
    return ""


SERVE_FRESH = Exercise(
    task="A server with backup workers, on rank 0. An update takes the mean of the first `needed` gradients; "
    "what comes too late is to be dropped. It runs without an error, and some of its gradients are stale. "
    "**Find the bug and mend it.**",
    stub="""\
def serve_fresh(weights, updates, needed, step):
    workers = range(1, dist.get_world_size())
    send_weights(workers, weights)
    for version in range(updates):
        came = {}
        while len(came) < needed:
            worker, verb, gradient = receive(weights)
            came[worker] = gradient
        step(weights, sum(came.values()) / needed, 0)
        if version < updates - 1:
            send_weights(came, weights)
    for _ in workers[needed:]:
        receive(weights)  # too late for all
    finish(workers)
""",
    solution="""\
def serve_fresh(weights, updates, needed, step):
    workers = range(1, dist.get_world_size())
    send_weights(workers, weights)
    current = set(workers)  # who has the weights of now
    for version in range(updates):
        came = {}
        while len(came) < needed:
            worker, verb, gradient = receive(weights)
            if worker in current:
                came[worker] = gradient
            else:
                send_weights([worker], weights)
                current.add(worker)
        step(weights, sum(came.values()) / needed, 0)
        if version < updates - 1:
            send_weights(came, weights)
            current = set(came)
    for _ in workers[needed:]:
        receive(weights)  # too late for all
    finish(workers)
""",
    why="A late gradient waits in the network until the next update asks for one, and is then the first. "
    "Only who has which weights tells. Its worker must not be left without an answer: it gets those of now.",
    hints=(
        "What becomes of a gradient that arrives just after its update was made?",
        "The server sent the weights, so it can know who has those of now. What if a gradient is of older "
        "ones?",
    ),
    given=_one_is_late,
    use=_use,
    answer=lambda arguments, result: arguments[3].seen,
    judge=_judge,
    sizes=(3, 4),
    limits=(Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),),
    uses=("send_weights", "finish", "parameter_server.receive"),
    changes=("weights",),
)
