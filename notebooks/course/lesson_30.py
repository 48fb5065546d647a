"""Weigh the shards."""

from __future__ import annotations

from labkit.exercises.describe import (
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
    edit,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch


def _losses(generator: torch.Generator, size: int) -> Arguments:
    """Mean losses of shards, of which the first is much the largest."""
    counts = [100, *(int(torch.randint(10, 30, (), generator=generator)) for _ in range(size - 1))]
    return [(torch.rand(1, generator=generator) + rank, count) for rank, count in enumerate(counts)]


WEIGHTED_MEAN = Exercise(
    task="Each rank has the mean `loss` of a shard of `count` samples. Return the mean over all samples, on "
    "every rank.",
    stub="""\
def weighted_mean(loss, count):  # a tensor with one element, and a number
    ...  # your code
""",
    solution="""\
def weighted_mean(loss, count):
    sums = torch.tensor([loss.item() * count, count])
    dist.all_reduce(sums)
    return sums[0] / sums[1]
""",
    why="A sample counts as much as any other, whichever shard it is in: sum the losses of all samples, then "
    "divide by their number. Both sums travel in one tensor.",
    hints=(
        "loss * count is the sum of the losses on this rank. What else has to be summed over the ranks?",
        "Put both into one tensor: then one all_reduce is enough.",
    ),
    given=_losses,
    judge=like_solution(),
    wrong=(
        edit("loss.item() * count, count", "loss.item(), 1",
             says="That is the mean of the means: a sample of a small shard counts for more."),
        edit("sums[0] / sums[1]", "sums[0]",
             says="That is the sum of all losses: divide it by the number of samples."),
        edit("sums[0] / sums[1]", "loss", says="That is the rank's own loss."),
    ),
    limits=(Limit("collectives", lambda a: 1, "One is enough: what travels may have two elements."),),
    sizes=(2, 3),
)  # fmt: skip

LESSON = Lesson(
    "30",
    "Weigh the shards",
    predictions=(Prediction("weighed", "%"),),
    exercises=(WEIGHTED_MEAN,),
    questions=(
        Question(
            "Shards differ in size. The mean of the ranks' mean losses is that of all samples if",
            (
                Choice("the ranks are many", "More ranks do not weigh better."),
                Choice("the shards have equal losses", "Then any weights give the same."),
                Choice("the order is shuffled", "On average it is near; equal it is not."),
            ),
            right="b",
        ),
    ),
)
