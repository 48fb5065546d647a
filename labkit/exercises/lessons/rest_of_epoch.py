"""The rest of an epoch, for however many ranks there are now: a heart of lesson 22."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.lazy_torch import torch


def _given(generator: torch.Generator, size: int) -> Arguments:
    """An epoch that other ranks began, whose last batch is smaller, and no multiple of the ranks."""
    batch = size * int(torch.randint(3, 6, (), generator=generator))
    batches, first, epoch = (int(torch.randint(3, 6, (), generator=generator)) for _ in range(3))
    done = batch * first + int(torch.randint(1, batch, (), generator=generator))
    return [(done + batch * batches + size + 1, epoch, done, batch)] * size


def _answer(arguments: tuple, result: Any) -> Any:
    """Row numbers by batch, or a sentence."""
    try:
        return [[int(row) for row in share] for share in result]
    except (TypeError, ValueError):
        return "no list of tensors of row numbers"


def _judge(answers: Answers) -> str:
    (count, epoch, done, batch), found = answers.arguments[0], answers.found
    for rank, shares in enumerate(found):
        if isinstance(shares, str):
            return f"rank {rank} returns {shares}"
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()
    left = [order[start : start + batch] for start in range(done, count, batch)]
    taken = [sum(shares, []) for shares in found]
    said = _rows(taken, order, done) or _batches(found, left)
    if said:
        return said
    for number, rows in enumerate(left):
        if sorted(sum((shares[number] for shares in found), [])) != sorted(rows):
            return f"batch {number} has other samples than one process would take: keep the epoch's order"
        sizes = [len(shares[number]) for shares in found]
        if max(sizes) - min(sizes) > 1:
            return f"the shares of batch {number} are {sizes}: of one size, or one sample apart"
    return ""


def _rows(taken: list[list[int]], order: list[int], done: int) -> str:
    """What is wrong with the samples that all ranks take together, in a sentence, or ""."""
    seen, used = Counter(row for rows in taken for row in rows), set(order[:done])
    if set(seen) - set(order):
        return f"there is no sample {max(seen)}: rows are numbered from 0 to {len(order) - 1}"
    if all(sorted(rows) == sorted(order) for rows in taken):
        return "every rank takes the whole epoch: leave out what is done, and give each its share"
    if len(seen) == len(order) and max(seen.values()) == 1:
        return f"the epoch begins anew: its first {done} samples would be seen a second time"
    if all(sorted(rows) == sorted(order[done:]) for rows in taken):
        return "every rank takes all that is left: give each its share of every batch"
    lost = len(order) - done - len(set(seen) - used)
    again = len(used & set(seen)) + sum(seen[row] > 1 for row in set(seen) - used)
    if lost or again:
        return (
            f"of {len(order) - done} samples that are left {lost} are seen by no rank, "
            f"and {again} of the epoch are seen more than once"
        )
    return ""


def _batches(found: list[list[list[int]]], left: list[list[int]]) -> str:
    """What is wrong with the number of batches, or their size, in a sentence, or ""."""
    counts = [len(shares) for shares in found]
    if set(counts) == {len(left)}:
        return ""
    if len(set(counts)) > 1:
        return f"the ranks have {counts} batches: every rank takes part in every one, or the others wait"
    return (
        f"{counts[0]} batches are left instead of {len(left)}: `batch` counts the samples of all ranks "
        "together, so the shares are smaller"
    )


REST_OF_EPOCH = Exercise(
    task="The order of an epoch is `torch.randperm(count, generator=...)`, with a generator whose seed is "
    "`epoch`. Its first `done` samples are in the weights already, whoever took them. Return this rank's "
    "part of the rest: a list of tensors of row numbers, one for each batch. `batch` samples of the order "
    "are a batch of all ranks together (the last may have fewer); the ranks' shares of it are of one size, "
    "or one sample apart. No communication.",
    stub="""\
def my_rest_of_epoch(count, epoch, done, batch):
    ...  # your code
""",
    solution="""\
def my_rest_of_epoch(count, epoch, done, batch):
    generator = torch.Generator().manual_seed(epoch)
    rest = torch.randperm(count, generator=generator)[done:]
    return [rows[rank::world_size] for rows in rest.split(batch)]
""",
    why="The order comes from the epoch's number alone, not from the ranks. So what is left follows from one "
    "number, `done`, in a world of any size, and each batch has the samples that it would have had.",
    hints=(
        "First the rest of the order, then batches of all ranks, then this rank's share of each.",
        "rest.split(batch) gives the batches, rows[rank::world_size] a share of one.",
    ),
    given=_given,
    answer=_answer,
    judge=_judge,
    limits=(Limit("collectives", lambda arguments: 0, "All can know the order from the epoch's number."),),
    becomes="rest_of_epoch",
)
