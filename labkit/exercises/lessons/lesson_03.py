"""Lesson 03, Split the gradient: its prediction, exercises and questions."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Arguments, Choice, Exercise, Lesson, Limit, Prediction, Question
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

WEIGHTS, COLUMNS = 7, 5


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    """A vector per rank, and how many samples it stands for: different on every rank."""
    samples = 1 + torch.randperm(9, generator=generator)[:size]
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
    ),
)


def _rows(generator: torch.Generator, size: int) -> Arguments:
    """Rows per rank, as many as on no other rank, and with another mean: as in shards of unlike data."""
    counts = 2 + torch.randperm(6, generator=generator)[:size]
    return [
        (2 * torch.randn(n, COLUMNS, generator=generator) + torch.randn(COLUMNS, generator=generator) + rank,)
        for rank, n in enumerate(counts.tolist())
    ]


def _stacked(arguments: tuple, result: Any) -> Any:
    """Mean and variance as one tensor of two rows, if that is what came back."""
    pair = isinstance(result, (tuple, list)) and len(result) == 2 and all(map(torch.is_tensor, result))
    if not pair or result[0].shape != result[1].shape:
        return result
    return torch.stack(list(result))


def _statistics(rows: torch.Tensor, unbiased: bool = False) -> torch.Tensor:
    return torch.stack([rows.mean(0), rows.var(0, unbiased=unbiased)])


def _of_all(arguments: Arguments) -> torch.Tensor:
    return _statistics(torch.cat([rows for (rows,) in arguments]))


def _sample_variance(arguments: Arguments) -> torch.Tensor:
    return _statistics(torch.cat([rows for (rows,) in arguments]), unbiased=True)


def _mean_of_each(arguments: Arguments) -> torch.Tensor:
    return sum(_statistics(rows) for (rows,) in arguments) / len(arguments)


def _weighted_mean_of_each(arguments: Arguments) -> torch.Tensor:
    total = sum(len(rows) for (rows,) in arguments)
    return sum(len(rows) * _statistics(rows) for (rows,) in arguments) / total


def _mean_square(arguments: Arguments) -> torch.Tensor:
    every = torch.cat([rows for (rows,) in arguments])
    return torch.stack([every.mean(0), (every**2).mean(0)])


def _of_each(arguments: Arguments) -> list[torch.Tensor]:
    return [_statistics(rows) for (rows,) in arguments]


BATCH_STATISTICS = Exercise(
    task="Make batch normalisation exact. `x_r` holds a row per sample; ranks may have different numbers of "
    "rows. Return mean and variance of each column over the rows of **all** ranks, with one collective call. "
    "The variance divides by the number of rows.",
    stub="def batch_statistics(x_r):\n    ...  # your code: return mean, variance\n",
    solution="""\
def batch_statistics(x_r):
    count = torch.full_like(x_r[0], len(x_r))
    packed = torch.stack([count, x_r.sum(0), (x_r**2).sum(0)])
    dist.all_reduce(packed)
    count, total, squares = packed
    mean = total / count
    return mean, squares / count - mean**2
""",
    why="Count, sum and sum of squares are sums over samples, so they may be split; a variance is not. "
    "SyncBatchNorm sends these too, and their gradients on the way back.",
    hints=(
        "A variance cannot be averaged over ranks: it does not know that the ranks' means differ. Which "
        "sums over samples give you mean and variance?",
        "The variance is the mean of the squares minus the square of the mean. Stack the number of rows, "
        "the sum and the sum of squares; reduce once.",
    ),
    given=_rows,
    answer=_stacked,
    judge=compare(
        everywhere(_of_all),
        Mistake(
            "The variance is divided by the number of rows minus one; divide by the number.",
            everywhere(_sample_variance),
        ),
        Mistake(
            "Each rank's mean and variance were averaged. Ranks with more rows must count for more; and "
            "a mean of variances misses how far the ranks' means are apart.",
            everywhere(_mean_of_each),
        ),
        Mistake(
            "The mean is right. A mean of variances misses how far the ranks' means are apart: "
            "sum the squares instead.",
            everywhere(_weighted_mean_of_each),
        ),
        Mistake(
            "The second is the mean of the squares. Take the square of the mean from it.",
            everywhere(_mean_square),
        ),
        Mistake(
            "These are the statistics of the rank's own rows, as in plain batch normalisation.", _of_each
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Several sums can travel as the rows of one tensor."),),
)

LESSON = Lesson(
    number="03",
    title="Split the gradient",
    predictions=(Prediction("one_shard_off", "%"),),
    exercises=(MEAN_IN_ONE, BATCH_STATISTICS),
    questions=(
        Question(
            "Four ranks hold 400, 400, 400 and 300 samples. By what must rank 3 multiply its gradient "
            "before the all-reduce?",
            (
                Choice(
                    "1/4", "That is the plain mean: each sample of rank 3 would count for 4/3 of another's."
                ),
                Choice("300/1500", "The rank's part of all samples. The four factors add up to 1."),
                Choice(
                    "400/300", "That gives the small shard more weight, and the four factors add up to 13/3."
                ),
            ),
            right="b",
        ),
        Question(
            "You go from 4 ranks to 8, keep the learning rate, and forget to divide. How many times as "
            "long as it should be is your step?",
            (
                Choice("2 times", "That is how much it grew since 4 ranks. It was too long already."),
                Choice("4 times", "So it was at 4 ranks: the sum of R means is R times their mean."),
                Choice("8 times", "A sum of 8 means is 8 times the mean."),
            ),
            right="c",
        ),
        Question(
            "Which of these layers leaves the split exact?",
            (
                Choice(
                    "batch normalisation", "It uses the other samples of the batch, and they are elsewhere."
                ),
                Choice("layer normalisation", "It stays within one sample, so it never misses the others."),
                Choice(
                    "dropout, each rank with its own mask",
                    "That is another fair draw, not the same gradient as with one mask.",
                ),
            ),
            right="b",
        ),
    ),
)
