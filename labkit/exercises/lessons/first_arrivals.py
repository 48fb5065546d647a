"""The mean of those that arrive first: an exercise of lesson 11."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import close, compare, show
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons import notices

LATE = 1.0
"""Seconds that the late rank sleeps: long against the others' messages."""
MEET = 5.0
"""Seconds in which all ranks come to begin together: who is late for want of a core is not the late one."""


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    late = int(torch.randint(1, size, (), generator=generator))
    seed = generator.initial_seed()
    return [(torch.randn(5, generator=generator), size - 2, late, LATE, seed) for _ in range(size)]


def _together(first_mean: Callable[..., Any], arguments: tuple) -> Any:
    """The late rank's sleep counts from the same moment for all."""
    *given, seed = arguments
    notices.meet(notices.run_of("first_mean", seed), MEET)
    return first_mean(*given)


def _judge_first(answers: Answers) -> str:
    """Who comes first is left to chance, but for the late one, who comes last."""
    _, needed, late, *_ = answers.arguments[0]
    mine, found = [arguments[0] for arguments in answers.arguments], answers.found[0]
    workers = [rank for rank in range(1, answers.size) if rank != late]
    if any(close(found, _mean(mine, group)) for group in combinations(workers, needed)):
        return compare(lambda arguments: [found, *mine[1:]])(answers)
    lines = [f"rank 0 is wrong: it has {show(found)}", "which is no mean of the first that came"]
    for group, says in (
        (range(1, answers.size), "It is the mean of all workers: do not wait for the last."),
        (range(answers.size), "It is the mean of all ranks. Only ranks from 1 on send."),
    ):
        if close(found, _mean(mine, group)):
            return "\n".join([lines[0], says])
    everyone = combinations(range(1, answers.size), needed)
    if any(close(found, _mean(mine, group)) for group in everyone):
        says = (
            f"Rank {late} came last, and is in it: receive from whoever comes. If you keep what came, each "
            "message needs a buffer of its own: one that is used again holds only the last."
        )
        return "\n".join([lines[0], says])
    sums = [needed * _mean(mine, group) for group in combinations(workers, needed)]
    for divisor, says in (
        (1, "It is a sum: divide it by `needed`."),
        (answers.size - 1, "It is divided by the number of workers, the wrong number: divide by `needed`."),
        (answers.size, "It is divided by the number of ranks, the wrong number: divide by `needed`."),
    ):
        if any(close(found, total / divisor) for total in sums):
            return "\n".join([lines[0], says])
    return "\n".join(lines)


def _mean(vectors: list[torch.Tensor], ranks: Collection[int]) -> torch.Tensor:
    return sum(vectors[rank] for rank in ranks) / len(ranks)


FIRST_MEAN = Exercise(
    task="Ranks from 1 on each send their vector `mine` to rank 0; rank `late` sleeps `seconds` before it "
    "sends. Rank 0 returns the mean of the first `needed` vectors that arrive, the others return `mine`. No "
    "message may be left behind.",
    stub="""\
def first_mean(mine, needed, late, seconds):
    ...  # your code
""",
    solution="""\
import time

def first_mean(mine, needed, late, seconds):
    if rank > 0:
        time.sleep(seconds if rank == late else 0)
        dist.send(mine, 0)
        return mine
    total, message = torch.zeros_like(mine), torch.empty_like(mine)
    for arrived in range(1, world_size):
        dist.recv(message)
        if arrived <= needed:
            total += message
    return total / needed
""",
    why="recv without a source takes the next that comes. A gradient that is not wanted has to be received "
    "all the same, or the next step would take it for its own.",
    hints=(
        "On rank 0: dist.recv(message) without a source, world_size - 1 times.",
        "Add up the first `needed`; receive the others too, and ignore them. Divide by `needed`.",
    ),
    given=_vectors,
    use=_together,
    judge=_judge_first,
    sizes=(3, 4),
    limits=(
        Limit("collectives", lambda arguments: 0, "A collective waits for every rank, the late one, too."),
        Limit("messages", lambda arguments: len(arguments) - 1, "One message from each worker."),
    ),
)
