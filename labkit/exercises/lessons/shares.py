"""Ranks that part orders of their own: the find-the-bug of lesson 12."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.lazy_torch import torch


def _given(generator: torch.Generator, size: int) -> Arguments:
    """So many samples that two orders hardly give the ranks parts without an overlap."""
    samples, epoch = (int(torch.randint(3, 7, (), generator=generator)) for _ in range(2))
    return [(size * (4 * samples + 1), samples, epoch)] * size


def _two_epochs(function: Any, arguments: tuple) -> Any:
    count, samples, epoch = arguments
    return [function(count, samples, epoch), function(count, samples, epoch + 1)]


def _answer(arguments: tuple, result: Any) -> Any:
    """Row numbers by epoch and batch, or a sentence."""
    try:
        return [[[int(row) for row in batch] for batch in epoch] for epoch in result]
    except (TypeError, ValueError):
        return "no list of tensors of row numbers"


def _judge(answers: Answers) -> str:
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
    if len(parts) > 1 and all(rows == parts[0] for rows in parts):
        return "all ranks take the same samples: the batch has not grown, it comes once from each rank"
    if len(seen) < count:
        return (
            f"in one epoch {count - len(seen)} of {count} samples are seen by no rank, and "
            f"{sum(times > 1 for times in seen.values())} more than once: every sample once"
        )
    return "" if max(seen.values()) == 1 else "in one epoch some samples are seen more than once"


SHARES = Exercise(
    task="All `count` samples lie on every rank. For an epoch each rank returns a list of tensors of row "
    "numbers, `samples` in each (the last may have fewer), without communication. Over all ranks each sample "
    "shall be seen once, and in another order in each epoch. The program runs without an error, and the "
    "network even learns. **Find the bug and mend it.**",
    stub="""\
def rows_of_rank(count, samples, epoch):
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    order = torch.randperm(count, generator=generator)
    return list(order[rank::world_size].split(samples))
""",
    solution="""\
def rows_of_rank(count, samples, epoch):
    generator = torch.Generator().manual_seed(epoch)  # the same on every rank
    order = torch.randperm(count, generator=generator)
    return list(order[rank::world_size].split(samples))
""",
    why="Slices of one order never overlap, those of different orders do. With four ranks all miss a sample "
    "with probability (3/4)^4, nearly a third. Who grows from one rank to many, and seeds each with "
    "its rank, gets just that.",
    hints=(
        "Let two ranks print their rows for six samples. Is every sample there?",
        "What must be the same on all ranks, so that the slices of the order have no sample in common?",
    ),
    given=_given,
    use=_two_epochs,
    answer=_answer,
    judge=_judge,
    limits=(Limit("collectives", lambda arguments: 0, "All can know the order from the epoch's number."),),
)
