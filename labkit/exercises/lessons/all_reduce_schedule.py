"""An all-reduce that a learner writes as a schedule, in lesson 07."""

from __future__ import annotations

from typing import Any

from labkit import LabError
from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import compare, everywhere
from labkit.exercises.lazy_torch import dist, torch
from labkit.schedule import Budget, Schedule, run, violations

LENGTH = 840
"""Elements of the tensor of a schedule: up to 8 ranks cut it into equal chunks."""


def _bytes(size: int) -> int:
    """What each rank of an all-reduce has to send, of LENGTH int64."""
    return 8 * LENGTH * 2 * (size - 1) // size


def _executed(arguments: tuple[int], result: Any) -> torch.Tensor | str:
    """What the schedule leaves on this rank; or what is wrong with it, and then it is not run."""
    (size,) = arguments
    try:
        schedule = result if isinstance(result, Schedule) else Schedule(result, chunks=size)
    except (TypeError, LabError):
        return f"A list of steps for each rank was expected, of Send, Recv and Reduce; it is {result!r}."
    if schedule.world_size != size:
        return f"It has steps for {schedule.world_size} ranks, not for {size}."
    budget = Budget(8 * LENGTH, itemsize=8, steps=2 * (size - 1), bytes_per_rank=_bytes(size))
    if wrong := violations(schedule, all_reduce=True, budget=budget):
        return str(wrong[0])
    x = torch.arange(LENGTH) * (dist.get_rank() + 1)
    run(schedule, x)
    return x


def _sum_of_all(arguments: Arguments) -> torch.Tensor:
    return torch.arange(LENGTH) * sum(range(1, len(arguments) + 1))


def _judged(answers: Answers) -> str:
    told = [found for found in answers.found if isinstance(found, str)]
    if not told:
        return compare(everywhere(_sum_of_all))(answers)
    others = len(set(told)) > 1 or len(told) < answers.size
    more = "\nThe ranks differ: every rank must return the steps of all ranks." if others else ""
    return f"the schedule is not what was asked for\n  {told[0]}{more}"


ALL_REDUCE_SCHEDULE = Exercise(
    task="Write an all-reduce as a schedule: for each rank a list of steps, each a tuple of operations that "
    "run at the same time. The tensor has `world_size` chunks. `Send(to, chunk)` sends, "
    "`Reduce(source, chunk)` adds what comes to the rank's own chunk, `Recv(source, chunk)` puts it in that "
    "chunk's place. Budget: the ring's, $2(R - 1)$ steps and $2(R - 1)/R$ of the tensor sent per rank. Let "
    "the ring run to the left, or find another way.",
    stub="""\
def all_reduce_schedule(world_size):
    steps = [[] for _ in range(world_size)]
    ...  # your code: steps[rank].append((Send(to, chunk), Reduce(source, chunk)))
    return steps
""",
    solution="""\
from labkit.schedule import Recv, Reduce, Send

def all_reduce_schedule(world_size):
    steps = [[] for _ in range(world_size)]
    for rank in range(world_size):
        left, right = (rank - 1) % world_size, (rank + 1) % world_size
        for n in range(2 * (world_size - 1)):
            take = Reduce if n < world_size - 1 else Recv
            sent, taken = (rank + n) % world_size, (rank + n + 1) % world_size
            steps[rank].append((Send(left, sent), take(right, taken)))
    return steps
""",
    why="What one rank sends is what its neighbour takes: rank r sends chunk r + n, so its left neighbour, "
    "r - 1, takes chunk (r - 1) + n + 1. The first R - 1 steps add, the others put the sum in its place.",
    hints=(
        "Begin with two ranks on paper. Step 0: each sends the chunk that the other will own, and adds what "
        "comes. Step 1: each sends its whole sum.",
        "To the left: in step n rank r sends chunk (r + n) mod R to r - 1, and takes chunk (r + n + 1) mod R "
        "from r + 1.",
        "`Reduce` adds what comes, `Recv` puts it in place of what is there. From step R - 1 on the sums are "
        "whole.",
    ),
    given=lambda generator, size: [(size,)] * size,
    answer=_executed,
    judge=_judged,
    limits=(
        Limit("collectives", lambda arguments: 0, "Return the steps; the check runs them."),
        Limit("bytes", lambda arguments: _bytes(len(arguments)), "Return the steps; the check runs them."),
        Limit(
            "steps",
            lambda arguments: 2 * (len(arguments) - 1),
            "Return the steps, the same on every rank; the check runs them.",
        ),
    ),
)
