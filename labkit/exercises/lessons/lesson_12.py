"""Lesson 12, Grow the batch: its predictions, exercises and questions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Gradients that have something in common; samples are more than ranks, so no factor is another."""
    samples, n = (int(torch.randint(*of, (), generator=generator)) for of in ((5, 10), (8, 30)))
    common = 1.5 + torch.rand(n, generator=generator, dtype=torch.float64)
    own = torch.randn(size, n, generator=generator, dtype=torch.float64)
    return [(gradient, samples) for gradient in common + own]


TWO_NUMBERS = "(s - m) * samples * R / (R - 1), (R * m - s) / (R - 1)"
NOISE = Exercise(
    task="Each rank has the `gradient` of `samples` samples of its own, a vector. Return two numbers, the "
    "same on every rank: what these gradients say of `tr(Sigma)`, and what they say of `|G|^2`, both "
    "unbiased. At most two collective calls.",
    stub="""\
def my_noise_and_signal(gradient, samples):
    ...  # your code
""",
    solution=f"""\
def my_noise_and_signal(gradient, samples):
    R, mean = dist.get_world_size(), gradient.clone()
    dist.all_reduce(mean)
    mean /= R
    own = gradient.square().sum()
    dist.all_reduce(own)
    s, m = own.item() / R, mean.square().sum().item()
    return {TWO_NUMBERS}
""",
    why="A rank's gradient has the noise of b samples, their mean that of R b. Two equations, two unknowns: "
    "what data parallelism computes anyway tells how large a batch is worth while.",
    hints=(
        "Solve the two equations for tr(Sigma) and |G|^2 on paper: subtract them, and R times the second "
        "minus the first.",
        "One all_reduce for the mean gradient. Another, of one number, for the mean of the ranks' "
        "gradient.square().sum().",
    ),
    given=_gradients,
    judge=like_solution(1e-8),
    limits=(Limit("collectives", lambda arguments: 2, "One for the mean gradient, one for a number."),),
    becomes="noise_and_signal",
    wrong=(
        edit("    dist.all_reduce(own)\n", "", "own.item() / R", "own.item()",
             says="Each rank used the square of its own gradient: take the mean of the squares over all ranks."),
        edit("    mean /= R\n", "",
             says="The sum of the gradients is not their mean: divide it by the number of ranks."),
        edit("own.item() / R", "own.item()",
             says="The sum of the squares is not their mean: divide it by the number of ranks."),
        edit(TWO_NUMBERS, "samples * (s - m), m",
             says="The square of the mean gradient is taken for |G|^2: it still has tr(Sigma) / (R b) in it."),
        edit("(R * m - s) / (R - 1)", "m",
             says="tr(Sigma) is right. The square of the mean gradient still has tr(Sigma) / (R b) in it: subtract "
             "that."),
        edit("samples * R / (R - 1), (", "samples, (",
             says="|G|^2 is right. tr(Sigma) is too small: the mean of R gradients has a part in R of their noise."),
        edit(" * samples", "",
             says="This is the noise of a rank's mean over its samples. That of one sample is `samples` times as large."),
        edit(TWO_NUMBERS, "(R * m - s) / (R - 1), (s - m) * samples * R / (R - 1)",
             says="The right numbers in the wrong order: first tr(Sigma), then |G|^2."),
        edit(TWO_NUMBERS, "samples * R * (s - m) / (R * m - s)",
             says="This is their ratio. Return both: the ratio of two means over many draws is what is meant, and the "
             "mean of ratios is another number."),
        edit("gradient.clone()", "gradient",
             says="all_reduce works in place: when its square was taken, `gradient` was the mean already."),
        edit(TWO_NUMBERS, "(s - m) * samples * 2, 2 * m - s",
             says="These factors are those of two ranks. With R of them they are R / (R - 1) and 1 / (R - 1)."),
        edit("gradient.clone()", "gradient.float()", "gradient.square()", "gradient.float().square()",
             says="The numbers are right to float32 only. They are differences: compute in the gradient's float64."),
        edit(TWO_NUMBERS, "float(f'{(s - m) * samples * R / (R - 1):.4g}'), float(f'{(R * m - s) / (R - 1):.4g}')",
             says="Return the numbers as they are: they were rounded."),
    ),
)  # fmt: skip


def _samples(generator: torch.Generator, size: int) -> Arguments:
    """So many that two orders hardly give the ranks parts without an overlap; hardly ever can R divide them."""
    samples, epoch, more = (int(torch.randint(3, 7, (), generator=generator)) for _ in range(3))
    return [(size * 4 * samples + more, samples, epoch)] * size


def _two_epochs(function: Any, arguments: tuple) -> Any:
    count, samples, epoch = arguments
    return [function(count, samples, epoch), function(count, samples, epoch + 1)]


def _row_numbers(arguments: tuple, result: Any) -> Any:
    """Row numbers by epoch and batch, or a sentence."""
    try:
        return [[[int(row) for row in batch] for batch in epoch] for epoch in result]
    except (TypeError, ValueError):
        return "no list of tensors of row numbers"


def _judge_rows(answers: Answers) -> str:
    count, samples, _ = answers.arguments[0]
    for rank, found in enumerate(answers.found):
        if isinstance(found, str):
            return f"rank {rank} returns {found}"
        if any(len(batch) != samples for epoch in found for batch in epoch[:-1]):
            return (
                f"rank {rank} has batches of another size: each has `samples` rows, the last may have fewer"
            )
    first, second = ([sum(found[epoch], []) for found in answers.found] for epoch in (0, 1))
    if any(rows == later for rows, later in zip(first, second, strict=True)):
        return "the next epoch has the order of this one: draw it anew, from `epoch`"
    return _seen(first, count) or _seen(second, count)


def _seen(parts: list[list[int]], count: int) -> str:
    """What is wrong with the parts of all ranks, in a sentence, or ""."""
    seen = Counter(row for rows in parts for row in rows)
    if set(seen) - set(range(count)):
        return f"there is no sample {max(seen)}: rows are numbered from 0 to {count - 1}"
    if all(len(set(rows)) == count for rows in parts):
        return "every rank takes all samples: give each its part of the order"
    if all(rows == parts[0][: len(rows)] for rows in parts):
        return "all ranks take the same samples: the batch has not grown, it comes once from each rank"
    if len(seen) < count:
        return (
            f"in one epoch {count - len(seen)} of {count} samples are seen by no rank, and "
            f"{sum(times > 1 for times in seen.values())} more than once: every sample once"
        )
    if max(seen.values()) > 1:
        return "in one epoch some samples are seen more than once"
    lengths = [len(rows) for rows in parts]
    if max(lengths) - min(lengths) > 1:
        return f"the ranks' parts have {lengths} samples: they may differ by one at most"
    return ""


MISSED = "samples are seen by no rank, and "
SAME_ORDER = "the next epoch has the order of this one: draw it anew, from `epoch`"
ALONE = "All can know the order from the epoch's number."
ROWS = """\
def rows_of_rank(count, samples, epoch):
    generator = torch.Generator().manual_seed(epoch)  # the same on every rank
    order = torch.randperm(count, generator=generator)
    return list(order[rank::world_size].split(samples))
"""
SHARES = Exercise(
    task="All `count` samples lie on every rank. For an epoch each rank returns a list of tensors of row "
    "numbers, `samples` in each (the last may have fewer), without communication. Over all ranks each sample "
    "shall be seen once, and in another order in each epoch; the numbers of samples of two ranks may differ "
    "by one. The program runs without an error, and the network even learns. **Find the bug and mend it.**",
    stub=edited(ROWS, "(epoch)  # the same on every rank", "(1000 * epoch + rank)"),
    solution=ROWS,
    why="Slices of one order never overlap, those of different orders do. With four ranks all miss a sample "
    "with probability (3/4)^4, nearly a third. Who grows from one rank to many, and seeds each with "
    "its rank, gets just that.",
    hints=(
        "Let two ranks print their rows for six samples. Is every sample there?",
        "What must be the same on all ranks, so that the slices of the order have no sample in common?",
    ),
    given=_samples,
    use=_two_epochs,
    answer=_row_numbers,
    judge=_judge_rows,
    limits=(Limit("collectives", lambda arguments: 0, ALONE), Limit("messages", lambda arguments: 0, ALONE)),
    wrong=(
        edit("(epoch)", "(100 * epoch + rank)", says=MISSED),
        edit("count, generator=generator", "count", says=MISSED),
        edit("order[rank::world_size]", "order[: count - count % (world_size * samples)][rank::world_size]", says=MISSED),
        edit("order[rank::world_size]", "order",
             says="every rank takes all samples: give each its part of the order"),
        edit("[rank::world", "[::world", says="all ranks take the same samples: the batch has not grown"),
        edit("(epoch)", "(0)", says=SAME_ORDER),
        edit("torch.randperm(count, generator=generator)", "torch.arange(count)", says=SAME_ORDER),
        edit("(samples)", "(samples - 1)", says="has batches of another size: each has `samples` rows"),
        edit("list(order[rank::world_size]", "list((order + 1)[rank::world_size]", says="there is no sample "),
        edit("order[rank::world_size]", "torch.cat([order[rank::world_size], order[:1]])",
             says="in one epoch some samples are seen more than once"),
        edit("order[rank::world_size]", "order.split([count - world_size + 1] + [1] * (world_size - 1))[rank]",
             says="samples: they may differ by one at most"),
        edit("    return", "    dist.broadcast(order, src=0)\n    return", says=ALONE),
        edit("    return", "    if rank == 0:\n        for r in range(1, world_size):\n            dist.send(order, r)\n"
             "    else:\n        dist.recv(order, 0)\n    return", says=ALONE),
        edit("    return list", "    mine = list", says="returns no list of tensors of row numbers"),
        edit("order[rank::world_size].split(samples)", "order[rank::world_size]",
             says="returns no list of tensors of row numbers"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="12",
    title="Grow the batch",
    predictions=(Prediction("iterations_32", "iterations"), Prediction("accuracy_512", "%")),
    exercises=(NOISE, SHARES),
    questions=questions("12"),
)
