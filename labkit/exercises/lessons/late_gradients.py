"""A server with backup workers that uses what comes too late: the find-the-bug of lesson 11."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import close, show
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
    """On rank 0 the learner's server, and the end; a worker's gradient is the weights that it is of."""
    from labkit.algorithms import finish, work
    from labkit.algorithms.parameter_server import receive

    weights, updates, needed, step, late = arguments
    step.run = notices.run_of("serve_fresh", step.seed)
    rank, workers = torch.distributed.get_rank(), range(1, torch.distributed.get_world_size())
    if rank == 0:
        serve(weights, updates, needed, step)
        for _ in workers:
            receive(weights)
        return finish(workers)
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
    wrong = [version for version, found in enumerate(seen) if abs(found - version) > 1e-6]
    if not wrong:
        return ""
    ratio = seen[-1] / (UPDATES - 1)
    in_proportion = ratio > 0 and close(seen, [ratio * version for version in range(UPDATES)])
    says = (
        "All are of the current weights, and their sum is divided by the wrong number: divide by `needed`."
        if in_proportion
        else "A gradient of older weights is in it. At that moment, who has the newest weights?"
    )
    return (
        f"update {wrong[0]} is wrong: a gradient here is the number of updates before its weights were sent, "
        f"and `step` was given {show(seen[wrong[0]])}\n{says}"
    )


def _messages(arguments: Arguments) -> int:
    """Each worker gets each version of the weights once and answers it, two messages each; at the end one."""
    workers = len(arguments) - 1
    return workers * (UPDATES + 1) * 4 + workers


SERVE_FRESH = Exercise(
    task="A server with backup workers, on rank 0. An update takes the mean of the first `needed` gradients. "
    "One that comes too late is dropped, and its worker waits until the next update is made. (Whoever calls "
    "`serve_fresh` receives the last gradients, and says `finish`.) It runs without an error, and some of "
    "its gradients are stale. **Find the bug and mend it.**",
    stub="""\
def serve_fresh(weights, updates, needed, step):
    current = set(range(1, dist.get_world_size()))  # who has the newest weights
    send_weights(current, weights)
    for _ in range(updates):
        came, idle = {}, set()
        while len(came) < needed:
            worker, verb, gradient = receive(weights)
            idle.add(worker)
            if worker in current:
                came[worker] = gradient
        step(weights, sum(came.values()) / needed, 0)
        send_weights(idle, weights)
        current.update(idle)
""",
    solution="""\
def serve_fresh(weights, updates, needed, step):
    current = set(range(1, dist.get_world_size()))  # who has the newest weights
    send_weights(current, weights)
    for _ in range(updates):
        came, idle = {}, set()
        while len(came) < needed:
            worker, verb, gradient = receive(weights)
            idle.add(worker)
            if worker in current:
                came[worker] = gradient
        step(weights, sum(came.values()) / needed, 0)
        send_weights(idle, weights)
        current = idle
""",
    why="`current.update(idle)` adds workers and takes none out. All are in it from the start, so the test "
    "lets every gradient pass, the late ones, too. After an update the newest weights are with those who "
    "were just sent them, and with nobody else: `current = idle`.",
    hints=(
        "Follow a worker that is still computing when the first update is made: when does it leave "
        "`current`?",
        "After an update only those have the newest weights who were just sent them. (And whoever gets no "
        "weights sends nothing more: a worker whose gradient was dropped needs an answer as well, or the "
        "server waits for it for ever.)",
    ),
    given=_one_is_late,
    use=_use,
    answer=lambda arguments, result: arguments[3].seen,
    judge=_judge,
    sizes=(3, 4),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers speak by messages alone."),
        Limit(
            "messages",
            _messages,
            "A worker needs each version of the weights once. If it gets them again before the update, it "
            "computes a gradient that nobody can use.",
        ),
    ),
    uses=("send_weights", "finish", "parameter_server.receive"),
    changes=("weights",),
)
