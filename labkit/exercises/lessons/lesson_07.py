"""Lesson 07, Choose the algorithm: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    questions,
)
from labkit.exercises.judge import Mistake, compare_rank_0
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.all_reduce_schedule import ALL_REDUCE_SCHEDULE
from labkit.exercises.lessons.choosing import FASTEST
from labkit.exercises.lessons.larger_worlds import here_and_in_larger_worlds
from labkit.rank.wording import ranks


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    n = int(torch.randint(2, 5_000, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


_compare_sums = compare_rank_0(
    lambda arguments: [sum(x for (x,) in arguments)],
    Mistake("That is the tensor of rank 0 alone.", lambda arguments: [arguments[0][0]]),
    Mistake(
        "The last rank's tensor is not in the sum. Is there a step in which it sends?",
        lambda arguments: [sum(x for (x,) in arguments[:-1])],
    ),
    Mistake(
        "Rank 0's own tensor is in the sum twice: `total` begins as a copy of it.",
        lambda arguments: [sum(x for (x,) in arguments) + arguments[0][0]],
    ),
    Mistake(
        "This is the mean: only the sum was asked for.",
        lambda arguments: [sum(x for (x,) in arguments) / len(arguments)],
    ),
)


def _judged(answers: Answers) -> str:
    """The sum here, and with more ranks than the lab has, as far as that can be told."""
    found, elsewhere = zip(*answers.found, strict=True)
    said = _compare_sums(Answers(answers.arguments, list(found)))
    if said or elsewhere[0] is None:
        return said
    size, missing = elsewhere[0]
    lacks = f"would lack the tensor of {ranks(missing)}" if missing else "would be wrong"
    return (
        f"the sum is right, but with {size} ranks it {lacks}\nThe loop must be right for any number of ranks."
    )


SUM_IN_A_TREE = Exercise(
    task="The first half of a tree: rank 0 shall end with the sum over all ranks; what the others return "
    "does not matter. With two and with four ranks it is right. With three it runs without an error, and is "
    "wrong. **Find the bug and mend it**, for any number of ranks. Budget: $R-1$ messages in all, no "
    "collective. Leave `x` as it is.",
    stub="""\
def sum_in_a_tree(x):
    total, received, distance = x.clone(), torch.empty_like(x), 1
    while 2 * distance <= world_size:
        if rank % (2 * distance) == distance:
            dist.send(total, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            dist.recv(received, rank + distance)
            total += received
        distance *= 2
    return total
""",
    solution="""\
def sum_in_a_tree(x):
    total, received, distance = x.clone(), torch.empty_like(x), 1
    while distance < world_size:
        if rank % (2 * distance) == distance:
            dist.send(total, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            dist.recv(received, rank + distance)
            total += received
        distance *= 2
    return total
""",
    why="log2 of 3 was rounded down: after one step rank 2 still held its own tensor, and nobody asked for "
    "it. A tree has as many steps as it takes until `distance` reaches the number of ranks. Test with a "
    "number of ranks that is no power of two.",
    hints=(
        "Go through it on paper for three ranks: who sends to whom in the first step? Who has not sent?",
        "Rank 2 must send to rank 0, over a distance of 2. For which values of `distance` does the loop run?",
    ),
    given=_tensors,
    judge=_judged,
    use=here_and_in_larger_worlds,
    limits=(
        Limit("collectives", lambda arguments: 0, "Mend the tree: use messages."),
        Limit("messages", lambda arguments: len(arguments) - 1, "Each rank but rank 0 sends once."),
        Limit(
            "steps",
            lambda arguments: (len(arguments) - 1).bit_length(),
            "A tree has log2 R steps: half of the ranks send at the same time.",
        ),
    ),
)

LESSON = Lesson(
    number="07",
    title="Choose the algorithm",
    predictions=(Prediction("times_as_fast", "times as fast"),),
    exercises=(FASTEST, SUM_IN_A_TREE, ALL_REDUCE_SCHEDULE),
    questions=questions("07"),
)
