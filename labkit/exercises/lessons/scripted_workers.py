"""Workers that pull and push in an order of the check's own, and what a server makes of them: lesson 08."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.exercises.describe import Arguments
from labkit.exercises.lazy_torch import dist, torch

RATE, START = 0.5, 3.0
"""The optimiser's learning rate, and each weight at the start."""

Request = tuple[int, str]
"""A worker and what it asks for: "pull", "push" or "finish"."""


@dataclass(frozen=True)
class Scale:
    """A factor for a gradient of that staleness."""

    power: float

    def __call__(self, staleness: int) -> float:
        return float((1 + staleness) ** -self.power)


def script_of(generator: torch.Generator, size: int) -> list[Request]:
    """All requests in their order: at first all pull and all push, so that gradients of others are stale."""

    def shuffled() -> list[int]:
        return [1 + worker for worker in torch.randperm(size - 1, generator=generator).tolist()]

    script = [(worker, "pull") for worker in shuffled()] + [(worker, "push") for worker in shuffled()]
    first, *others = shuffled()
    script += [(first, "pull"), (first, "pull"), *((worker, "pull") for worker in others)]
    script += [(worker, "push") for worker in (*others, first)]
    script += [(worker, verb) for worker in others for verb in ("pull", "push", "finish")]
    return [*script, *[(first, "pull"), (first, "push")] * 3, (first, "finish")]


def given(generator: torch.Generator, size: int) -> Arguments:
    """Rank 0: weights, their optimiser, its workers, a scale. Workers: all requests, and how many weights."""
    n = int(torch.randint(500, 3_000, (), generator=generator))
    weights = torch.nn.Parameter(torch.full((n,), START, dtype=torch.float64))
    script, workers = script_of(generator, size), list(range(1, size))
    server = weights, torch.optim.SGD([weights], lr=RATE), workers, Scale(1 + size / 4)
    return [server, *[(script, n)] * (size - 1)]


def gradient(worker: int, weights: torch.Tensor) -> torch.Tensor:
    return 0.1 * worker * weights + 1


def by_role(serve: Callable[..., Any], arguments: tuple) -> Any:
    """The learner's server on rank 0; on the others a worker."""
    return serve(*arguments) if dist.get_rank() == 0 else work(*arguments)


def work(script: list[Request], size: int) -> None:
    """A worker: make its requests, each in its turn, which a message from the worker before it tells."""
    from labkit.algorithms.parameter_server import finish, pull, push

    me, weights, token = dist.get_rank(), torch.empty(size, dtype=torch.float64), torch.zeros(1)
    for turn, (worker, verb) in enumerate(script):
        before, after = script[max(turn - 1, 0)][0], script[min(turn + 1, len(script) - 1)][0]
        if worker != me:
            continue
        if turn > 0 and before != me:
            dist.recv(token, before)
        if verb == "pull":
            pull(weights, [0])
        elif verb == "push":
            push(gradient(me, weights), [0])
        else:
            finish([0])
        if after != me:
            dist.send(token, after)


@dataclass(frozen=True)
class Served:
    """What a server makes of a script: the weights (they are all alike), and its list."""

    weight: float
    updates: list[tuple[int, int]]


def served(arguments: Arguments, since: str = "pull", scaled: bool = True, others: bool = True) -> Served:
    """By the rules of the task; or with versions of the last `since`, unscaled, or of own updates alone."""
    script, scale = arguments[1][0], arguments[0][3]
    weight, updates, pulled = START, [], {}
    version: dict[int, int] = {}
    for worker, verb in script:
        if verb == "pull":
            pulled[worker] = weight
        if verb == "push":
            after = updates[version.get(worker, 0) :]
            staleness = len(after if others else [w for w, _ in after if w == worker])
            factor = scale(staleness) if scaled else 1.0
            weight -= RATE * factor * float(gradient(worker, pulled[worker]))
            updates.append((worker, staleness))
        if verb == since:
            version[worker] = len(updates)
    return Served(weight, updates)
