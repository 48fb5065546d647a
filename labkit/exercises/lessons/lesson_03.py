"""Lesson 03, Split the gradient: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.batch_statistics import BATCH_STATISTICS
from labkit.exercises.lessons.first_bugs import CLIPPED_MEAN

WEIGHTS = 7


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    """A vector per rank, and how many samples it stands for: different on every rank."""
    samples = 2 + torch.randperm(9, generator=generator)[:size]  # one sample alone would weigh nothing
    return [(torch.randn(WEIGHTS, generator=generator), n) for n in samples.tolist()]


def _mean(arguments: Arguments) -> torch.Tensor:
    total = sum(samples for _, samples in arguments)
    return sum(g * samples for g, samples in arguments) / total


def _plain_mean(arguments: Arguments) -> torch.Tensor:
    return sum(g for g, _ in arguments) / len(arguments)


def _weighted_sum(arguments: Arguments) -> torch.Tensor:
    return sum(g * samples for g, samples in arguments)


def _weighted_sum_over_ranks(arguments: Arguments) -> torch.Tensor:
    return _weighted_sum(arguments) / len(arguments)


def _own(arguments: Arguments) -> list[torch.Tensor]:
    return [g for g, _ in arguments]


MEAN_IN_ONE = Exercise(
    task="`mean_over_ranks` calls `all_reduce` twice, and each call costs latency (lesson 01). Return the "
    "same mean, weighted by `samples`, with one collective call.",
    stub="def mean_in_one(gradient, samples):\n    ...  # your code\n",
    solution="""\
def mean_in_one(gradient, samples):
    packed = torch.cat([gradient * samples, gradient.new_tensor([float(samples)])])
    dist.all_reduce(packed)
    return packed[:-1] / packed[-1]
""",
    why="The count travels with the vector: the last number of the sum is |D|, by which the rest is divided.",
    hints=(
        "The first all_reduce sums one number per rank. Let that number travel with the vector.",
        "torch.cat the weighted vector and the count into one tensor. Divide after the sum, not before.",
    ),
    given=_vectors,
    judge=compare(
        everywhere(_mean),
        Mistake(
            "This is the plain mean. A vector that stands for more samples must count for more: "
            "multiply it by samples before the sum.",
            everywhere(_plain_mean),
        ),
        Mistake("This is the sum over all samples. Divide it by their number.", everywhere(_weighted_sum)),
        Mistake(
            "You divide by the number of ranks. Divide by the number of samples of all ranks.",
            everywhere(_weighted_sum_over_ranks),
        ),
        Mistake("This is the rank's own vector: nothing has come from the others.", _own),
    ),
    limits=(
        Limit("collectives", lambda arguments: 1, "One call can sum the vector and the count together."),
        Limit("messages", lambda arguments: 0, "No message by hand: one collective call does it all."),
    ),
)


LESSON = Lesson(
    number="03",
    title="Split the gradient",
    predictions=(Prediction("one_shard_off", "%"),),
    exercises=(CLIPPED_MEAN, MEAN_IN_ONE, BATCH_STATISTICS),
    questions=questions("03"),
)
