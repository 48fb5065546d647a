"""Lesson 03, Split the gradient: its prediction, exercises and questions."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

DIGITS_LOST = "Digits were lost on the way: compute in the dtype of what is given."
YOURS = "That is the same whatever the ranks have: it must follow from what is given."


def _dtype(size: int) -> torch.dtype:
    """Not in each world the same: what is returned has the type of what was given."""
    return torch.float64 if size == 4 else torch.float32


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Some ranks' gradients are longer than the limit, some shorter; in a world of 3 even the sum is shorter.

    Elsewhere it is so long that one of its few numbers is above the limit alone.
    """
    longest, least, most = (1.3, 0.15, 0.3) if size == 3 else (9.0, 2.6, 9.0)
    lengths = torch.linspace(0.2, longest, size)
    n = int(torch.randint(3, 7, (), generator=generator))
    limit = 1.2 + 2 * torch.rand((), generator=generator).item()
    while True:
        drawn = torch.randn(size, n, dtype=_dtype(size), generator=generator)
        drawn *= (lengths / drawn.norm(dim=1))[:, None]
        if least < drawn.mean(0).norm() < most:
            return [(limit * gradient, limit) for gradient in drawn]


CLIPPED = """\
def clipped_mean(gradient, limit):
    mean = gradient.clone()
    dist.all_reduce(mean)
    mean /= world_size
    return mean * min(1.0, limit / mean.norm().item())
"""
CLIPPED_MEAN = Exercise(
    task="**Clipping**: a gradient whose norm is above `limit` is scaled down to it. Return the clipped "
    "mean over equal shards, as one process with all the data would have it, with one collective call. This "
    "program gives another gradient. **Find the bug and mend it.**",
    stub="""\
def clipped_mean(gradient, limit):
    scale = min(1.0, limit / gradient.norm().item())
    mean = gradient * scale
    dist.all_reduce(mean)
    return mean / world_size
""",
    solution=CLIPPED,
    why="The mean distributes over the ranks because it is linear. Clipping is not: the norm of a mean "
    "is not the mean of the norms. So first the mean, then what one process does with it.",
    hints=(
        "One process with all the data has one gradient. When does it clip: before or after the mean "
        "over samples?",
        "First the all-reduce and the division, then the norm of what came out.",
    ),
    given=_gradients,
    judge=like_solution(1e-5),
    limits=(Limit("collectives", lambda arguments: 1, "One all-reduce is enough."),),
    wrong=(
        edit("gradient.clone()", "gradient / max(1.0, gradient.norm().item() / limit)",
             " * min(1.0, limit / mean.norm().item())", "",
             says="Each rank has clipped its own gradient. Take the mean first: only that is the gradient of "
             "all the data."),
        edit(" * min(1.0, limit / mean.norm().item())", "", says="This is the mean without clipping."),
        edit("    mean /= world_size\n", "", "mean.norm().item())", "mean.norm().item()) / world_size",
             says="The sum was clipped and then divided: divide first, then clip."),
        edit("    mean /= world_size\n", "", says="This is the clipped sum: divide by the number of ranks, then clip."),
        edit("min(1.0, limit / mean.norm().item())", "limit / mean.norm()",
             says="A gradient that is short enough stays as it is: the factor is at most 1."),
        edit("mean.norm().item()", "mean.abs().max().item()",
             says="That is by the largest number. The norm is the root of the sum of the squares: mean.norm()."),
        edit("mean * min(1.0, limit / mean.norm().item())", "mean.clamp(-limit, limit)",
             says="The numbers were cut one by one, which turns the gradient: scale all by one factor."),
        edit("gradient.clone()", "torch.cat([gradient, gradient.norm().view(1)])",
             "    return mean * min(1.0, limit / mean.norm().item())",
             "    return mean[:-1] * min(1.0, limit / mean[-1].item())",
             says="That is by the mean of the norms. The norm of the mean is another: the ranks' gradients differ "
             "in direction."),
        edit("gradient.clone()", "gradient", says="rank 0 changed `gradient`, which its caller goes on using"),
        edit("    return mean", "    norm = mean.norm()\n    dist.all_reduce(norm, op=dist.ReduceOp.MAX)\n    return mean",
             says="One all-reduce is enough."),
        edit("    dist", "    if mean.norm() > limit:\n        dist", says="deadlock: ", hangs=True),
        edit("limit / mean", "1.0 / mean", says="1.0 is a limit of yours: go by `limit`."),
        edit("gradient.clone()", "gradient.half()", "return mean", "return mean.to(gradient.dtype)", says=DIGITS_LOST),
        edit("world_size", "2", says="That is divided by 2. The next world may have another size: world_size knows it."),
    ),
)  # fmt: skip


def _vectors(generator: torch.Generator, size: int) -> Arguments:
    """A vector per rank, and how many samples it stands for: different on every rank."""
    n = int(torch.randint(4, 12, (), generator=generator))
    samples = 2 + torch.randperm(9, generator=generator)[:size]  # one sample alone would weigh nothing
    return [(torch.randn(n, dtype=_dtype(size), generator=generator), s) for s in samples.tolist()]


TOGETHER = "One call can sum the vector and the count together."
MEAN_IN_ONE = Exercise(
    task="`mean_over_ranks` calls `all_reduce` twice, and each call costs latency (lesson 01). Return the "
    "same mean, weighted by `samples`, with one collective call and no message by hand.",
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
    judge=like_solution(1e-5),
    limits=(
        Limit("collectives", lambda arguments: 1, TOGETHER),
        Limit("messages", lambda arguments: 0, "No message by hand: one collective call does it all."),
    ),
    wrong=(
        edit("gradient * samples", "gradient", "packed[-1]", "world_size",
             says="This is the plain mean. A vector that stands for more samples must count for more: "
             "multiply it by samples before the sum."),
        edit(" / packed[-1]", "", says="This is the sum over all samples. Divide it by their number."),
        edit("packed[-1]", "world_size",
             says="You divide by the number of ranks. Divide by the number of samples of all ranks."),
        edit("packed[-1]", "(samples * world_size)",
             says="You divide by this rank's samples times the number of ranks, but ranks have different numbers "
             "of samples. Add those up."),
        edit("gradient * samples", "gradient",
             says="You divide by the number of all samples, but each vector stands for one alone: multiply it by "
             "its rank's samples before the sum."),
        body("return gradient * samples / samples",
             says="This is the rank's own vector: nothing has come from the others."),
        body("""\
total = gradient.new_tensor(float(samples))
dist.all_reduce(total)
mean = gradient * samples / total
dist.all_reduce(mean)
return mean""", says=TOGETHER),
        edit("    dist", "    if rank > 0:\n        dist", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce"),
        edit("    dist.all_reduce(packed)\n", """\
    own = packed.clone()
    for shift in range(1, world_size):
        came = torch.empty_like(own)
        sending = dist.isend(own, (rank + shift) % world_size)
        dist.recv(came, (rank - shift) % world_size)
        sending.wait()
        packed += came
""", says="No message by hand: one collective call does it all."),
        edit("    packed", "    gradient *= samples\n    packed", "gradient * samples", "gradient",
             says="rank 0 changed `gradient`, which its caller goes on using"),
        edit("    dist", "    packed = packed.half()\n    dist", "packed[:-1] / packed[-1]",
             "(packed[:-1] / packed[-1]).to(gradient.dtype)", says=DIGITS_LOST),
        body("return torch.zeros_like(gradient)", says=YOURS),
    ),
)  # fmt: skip


def _rows(generator: torch.Generator, size: int) -> Arguments:
    """Rows per rank, as many as on no other rank, and with another mean: as in shards of unlike data."""
    columns = int(torch.randint(3, 8, (), generator=generator))
    counts = 2 + torch.randperm(6, generator=generator)[:size]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=_dtype(size), generator=generator)

    return [(2 * normal(n, columns) + normal(columns) + rank,) for rank, n in enumerate(counts.tolist())]


def _stacked(arguments: tuple, result: Any) -> Any:
    """Mean and variance as one tensor of two rows, if that is what came back."""
    pair = isinstance(result, (tuple, list)) and len(result) == 2 and all(map(torch.is_tensor, result))
    if not pair or result[0].shape != result[1].shape or result[0].dtype != result[1].dtype:
        return result
    return torch.stack(list(result))


IN_ONE_TENSOR = "Several sums can travel as the rows of one tensor."
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
    judge=like_solution(1e-5),
    limits=(Limit("collectives", lambda arguments: 1, IN_ONE_TENSOR),),
    wrong=(
        edit("return mean, squares / count - mean**2", "return squares / count - mean**2, mean",
             says="Mean and variance are swapped: the mean comes first."),
        edit("squares / count - mean**2", "(squares - count * mean**2) / (count - 1)",
             says="The variance is divided by the number of rows minus one; divide by the number."),
        body("""\
s = torch.stack([x_r.mean(0), x_r.var(0, unbiased=False)])
dist.all_reduce(s)
return s[0] / world_size, s[1] / world_size""",
             says="Each rank's mean and variance were averaged. Ranks with more rows must count for more; and "
             "a mean of variances misses how far the ranks' means are apart."),
        edit("(x_r**2).sum(0)", "count * x_r.var(0, unbiased=False)", " - mean**2", "",
             says="The mean is right. A mean of variances misses how far the ranks' means are apart: "
             "sum the squares instead."),
        edit(" - mean**2", "", says="The second is the mean of the squares. Take the square of the mean from it."),
        edit("squares / count - mean**2", "(squares / count - mean**2).sqrt()",
             says="The second is the standard deviation. The variance is its square: no root."),
        edit(", squares / count - mean**2", "",
             says="The mean alone came back. Return the variance, too: return mean, variance."),
        edit("    mean =", "    count = world_size\n    mean =",
             says="The sums were divided by the number of ranks. Divide by the number of rows of all ranks."),
        edit("    mean =", "    count = len(x_r) * world_size\n    mean =",
             says="The sums were divided by this rank's rows times the number of ranks, but ranks have different "
             "numbers of rows. Add those up, too."),
        body("return x_r.mean(0), x_r.var(0, unbiased=False)",
             says="These are the statistics of the rank's own rows, as in plain batch normalisation."),
        edit("    mean =", "    total, squares = (t.mean().expand_as(t) for t in (total, squares))\n    mean =",
             says="These are mean and variance of all numbers together. Each column has its own: sum over rows alone."),
        edit("    return", "    x_r -= mean\n    return",
             says="rank 0 changed `x_r`, which its caller goes on using"),
        edit("squares / count - mean**2", "deviations / count",
             "    return", "    deviations = ((x_r - mean) ** 2).sum(0)\n    dist.all_reduce(deviations)\n    return",
             says=IN_ONE_TENSOR),
        edit("    count = torch", "    dtype, x_r = x_r.dtype, x_r.half()\n    count = torch",
             "return mean, squares / count - mean**2", "return mean.to(dtype), (squares / count - mean**2).to(dtype)",
             says=DIGITS_LOST),
        body("return torch.zeros_like(x_r[0]), torch.ones_like(x_r[0])", says=YOURS),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="03",
    title="Split the gradient",
    predictions=(Prediction("one_shard_off", "%"),),
    exercises=(CLIPPED_MEAN, MEAN_IN_ONE, BATCH_STATISTICS),
    questions=questions("03"),
)
