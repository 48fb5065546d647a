"""Mean and variance of a whole batch, of which every rank has other rows: an exercise of lesson 03."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

COLUMNS = 5


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


def _divided(arguments: Arguments, by: float) -> torch.Tensor:
    """The sums over all rows, divided by something else than their number."""
    every = torch.cat([rows for (rows,) in arguments])
    mean = every.sum(0) / by
    return torch.stack([mean, (every**2).sum(0) / by - mean**2])


def _by_own_rows(arguments: Arguments) -> list[torch.Tensor]:
    return [_divided(arguments, len(rows) * len(arguments)) for (rows,) in arguments]


def _deviation(arguments: Arguments) -> torch.Tensor:
    mean, variance = _of_all(arguments)
    return torch.stack([mean, variance.sqrt()])


def _of_each(arguments: Arguments) -> list[torch.Tensor]:
    return [_statistics(rows) for (rows,) in arguments]


BATCH_STATISTICS = Exercise(
    task="Share the statistics of batch normalisation, as `SyncBatchNorm` does in its forward pass. `x_r` "
    "holds a row per sample; ranks may have different numbers of rows. Return mean and variance of each "
    "column over the rows of **all** ranks, with one collective call. The variance divides by the number of "
    "rows.",
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
    "The difference of two large numbers loses digits, though: with data around 1000 and a variance of 1, "
    "float32 gives 0.9 or 1.1. Subtract a rough mean first, the same on all ranks, or sum in float64.",
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
            "Mean and variance are swapped: the mean comes first.",
            everywhere(lambda arguments: _of_all(arguments).flip(0)),
        ),
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
            "The second is the standard deviation. The variance is its square: no root.",
            everywhere(_deviation),
        ),
        Mistake(
            "The mean alone came back. Return the variance, too: return mean, variance.",
            everywhere(lambda arguments: _of_all(arguments)[0]),
        ),
        Mistake(
            "The sums were divided by the number of ranks. Divide by the number of rows of all ranks.",
            everywhere(lambda arguments: _divided(arguments, len(arguments))),
        ),
        Mistake(
            "The sums were divided by this rank's rows times the number of ranks, but ranks have different "
            "numbers of rows. Add those up, too.",
            _by_own_rows,
        ),
        Mistake(
            "These are the statistics of the rank's own rows, as in plain batch normalisation.", _of_each
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Several sums can travel as the rows of one tensor."),),
)
