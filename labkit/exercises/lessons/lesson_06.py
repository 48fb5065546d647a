"""Lesson 06, All-reduce in a ring: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit import LabError
from labkit.exercises.describe import (
    Answers,
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
    Values,
)
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import dist, torch
from labkit.schedule import Budget, Schedule, run, violations

LENGTH = 840
"""Elements of the tensor of a schedule: up to 8 ranks cut it into equal chunks."""


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    n = 12 * int(torch.randint(1, 50, (), generator=generator))  # 2, 3 or 4 ranks cut it into equal chunks
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(x for (x,) in arguments)


def _chunk(offset: int, scale: Callable[[int], float] = lambda size: 1) -> Values:
    """Per rank the summed chunk whose number is the rank's plus `offset`."""

    def chunks(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        parts = (_sum(arguments) * scale(size)).chunk(size)
        return [parts[(rank + offset) % size] for rank in range(size)]

    return chunks


REDUCE_SCATTER = Exercise(
    task="Write the first half alone. Return the sum of chunk number `rank` over all ranks. In the ring "
    "above, rank $r$ ends the first half with the sum of chunk $r + 1$. Budget: $R - 1$ steps, $(R - 1)/R$ "
    "of `x` sent per rank.",
    stub="""\
def reduce_scatter(x):  # its length can be divided by world_size
    ...  # your code, with isend and recv
""",
    solution="""\
def reduce_scatter(x):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.clone().chunk(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        sending = dist.isend(chunks[(rank - step - 1) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        chunks[(rank - step - 2) % world_size].add_(received)
    return chunks[rank]
""",
    why="Every rank begins one chunk earlier than in the lesson, so every sum ends one rank later. ZeRO and "
    "FSDP reduce gradients with this collective.",
    hints=(
        "Take the ring of the lesson, and stop after R - 1 steps. Which chunk is whole then?",
        "In step s rank r sends chunk (r - s - 1) mod R to the right. So from the left it gets chunk "
        "(r - s - 2) mod R, which it adds.",
    ),
    given=_tensors,
    uses=("all_reduce_ring",),
    judge=compare(
        _chunk(0),
        Mistake(
            "This is the sum of the chunk after the rank's own, as in the ring of the lesson. Let every rank "
            "begin one chunk earlier.",
            _chunk(1),
        ),
        Mistake("This is the sum of the whole tensor. Return chunk `rank` of it.", everywhere(_sum)),
        Mistake("This is the mean: reduce-scatter only adds.", _chunk(0, lambda size: 1 / size)),
        Mistake(
            "This is the rank's own chunk: no other rank's numbers are in it. Which chunk was added to?",
            lambda arguments: [x.chunk(len(arguments))[rank] for rank, (x,) in enumerate(arguments)],
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you build here: use messages."),
        Limit(
            "bytes",
            lambda arguments: arguments[0][0].nbytes * (len(arguments) - 1) // len(arguments),
            "A chunk is a part in R, and a rank sends R - 1 of them. The second half of the ring sends more.",
        ),
        Limit(
            "steps",
            lambda arguments: len(arguments) - 1,
            "In a step all ranks send at the same time: isend to the right, recv from the left.",
        ),
    ),
)


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
    "run at the same time. The tensor has `world_size` chunks. Budget: the ring's, $2(R - 1)$ steps and "
    "$2(R - 1)/R$ of the tensor sent per rank. Let the ring run to the left, or find another way.",
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
        "`Reduce` adds what comes, `Recv` replaces by it. From step R - 1 on the sums are whole.",
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

LESSON = Lesson(
    number="06",
    title="All-reduce in a ring",
    predictions=(Prediction("bytes_per_rank", "times as many"),),
    exercises=(REDUCE_SCATTER, ALL_REDUCE_SCHEDULE),
    questions=(
        Question(
            "Twice as many ranks in the ring. What doubles?",
            (
                Choice("the bytes per rank", "They stay below twice the tensor, however many ranks."),
                Choice("the steps, almost", "There are 2(R - 1) of them, and each has its latency."),
                Choice(
                    "the time for a large tensor", "Where bytes count it stays almost the same, as they do."
                ),
            ),
            right="b",
        ),
        Question(
            "After the reduce-scatter a rank holds",
            (
                Choice("the whole sum", "The all-gather, the second half, makes that of it."),
                Choice("the sum of one chunk", "Each rank has another chunk; together they have the sum."),
                Choice("its own numbers", "In the chunk that it collected are the numbers of all ranks."),
            ),
            right="b",
        ),
        Question(
            "One number, 1,024 ranks, equal links. Which way is the fastest?",
            (
                Choice("the ring", "It has 2,046 steps of one latency each; bytes do not count here."),
                Choice("halving and doubling", "2 log2 R is 20 latencies."),
                Choice("the naive way", "It has 1,023 messages to every rank, which takes them in turn."),
            ),
            right="b",
        ),
    ),
)
