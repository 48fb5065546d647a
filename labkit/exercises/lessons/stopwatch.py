"""A stopwatch that blames the network for a late rank: the find-the-bug of lesson 05."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere, numbers
from labkit.exercises.lazy_torch import torch

LATE, SYNC = 0.4, 0.2
"""Seconds by which one rank computes longer, and that the planted all-reduce takes when all have come."""
CALLS = 3
"""Of which the shortest counts: a rank that waits for a core makes a stopwatch show more, never less."""


@dataclass(frozen=True)
class Compute:
    """Wait as long as a device computes."""

    seconds: float

    def __call__(self) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True)
class Sync:
    """Wait for all ranks, and then as long as the bytes take."""

    seconds: float

    def __call__(self) -> None:
        torch.distributed.all_reduce(torch.zeros(1))
        time.sleep(self.seconds)


def _one_is_late(generator: torch.Generator, size: int) -> Arguments:
    late = int(torch.randint(size, (), generator=generator))
    return [(Compute(0.02 + LATE * (rank == late)), Sync(SYNC)) for rank in range(size)]


def _shortest(sync_seconds: Callable[..., Any], arguments: tuple) -> Any:
    """What the stopwatch shows at its best; what is no number, as it is."""
    shown = [sync_seconds(*arguments) for _ in range(CALLS)]
    found = [numbers(value) for value in shown]
    if any(number is None or number.numel() != 1 for number in found):
        return shown[0]
    return min(number.item() for number in found)


def _waits(arguments: Arguments) -> list[float]:
    """How long each rank waits for the one that comes last."""
    last = max(compute.seconds for compute, _ in arguments)
    return [last - compute.seconds for compute, _ in arguments]


_compare_seconds = compare(
    everywhere(lambda arguments: SYNC),
    Mistake(
        "On a rank that comes early the stopwatch runs while it waits for the rank that computes longest: "
        "that wait is in its number.",
        lambda arguments: [wait + SYNC for wait in _waits(arguments)],
    ),
    Mistake(
        "That is the mean of the ranks' stopwatches, and most of those ran while their rank waited.",
        everywhere(lambda arguments: SYNC + sum(_waits(arguments)) / len(arguments)),
    ),
    Mistake(
        "Computing is in that number, that of the slowest rank: only the synchronisation was asked for.",
        everywhere(lambda arguments: LATE + SYNC),
    ),
    tolerance=0.4,
)


def _judge_of_seconds(answers: Answers) -> str:
    """What `compare` says; and who left the synchronisation out, for no factor leads from it to nothing."""
    said = _compare_seconds(answers)
    found = numbers(answers.found[_waits(answers.arguments).index(0.0)])
    if said and found is not None and found.numel() == 1 and found.item() < SYNC / 4:
        return f"{said}\nThe synchronisation itself is missing: sync() belongs between start and end."
    return said


SYNC_SECONDS = Exercise(
    task="A step computes, then synchronises. This program is meant to measure, on every rank, how long the "
    "synchronisation takes: from the moment when the last rank has arrived until the sum is there. But when "
    "one rank computes longer than the others, the program blames the network for it. It runs without an "
    "error. **Find the bug and mend it**, with at most two collective calls, that of `sync` included.",
    stub="""\
def sync_seconds(compute, sync):  # two functions without arguments
    from time import perf_counter
    compute()
    start = perf_counter()
    sync()
    return perf_counter() - start
""",
    solution="""\
def sync_seconds(compute, sync):
    from time import perf_counter
    compute()
    dist.barrier()
    start = perf_counter()
    sync()
    return perf_counter() - start
""",
    why="A rank that has computed less comes early, and waits in the all-reduce: that is no property of the "
    "network. After a barrier no stopwatch starts before the last rank has come.",
    hints=(
        "Draw it: one rank computes for 40 ms, the others for 2. When does each stopwatch start? When can "
        "the all-reduce begin?",
        "Nobody may start a stopwatch before all have computed. Which call does nothing but wait for all?",
    ),
    given=_one_is_late,
    use=_shortest,
    calls=CALLS,
    judge=_judge_of_seconds,
    limits=(Limit("collectives", lambda arguments: 2, "It is enough that all meet once."),),
)
