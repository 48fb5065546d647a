"""Gradients of rows that may come twice: the find-the-bug of lesson 09."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare_rank_0
from labkit.exercises.lazy_torch import torch

ROWS, NUMBERS = 50, 6
"""Of the table: rows, and numbers in each."""


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """A table on rank 0; gradients of rows on the others, of which some come twice and some on many ranks."""
    table = torch.randn(ROWS, NUMBERS, dtype=torch.float64, generator=generator)
    given = [(table, torch.empty(0, dtype=torch.int64), table[:0])]
    for _ in range(1, size):
        distinct = torch.randperm(ROWS, generator=generator)[:12]
        ids = torch.cat([distinct, distinct[:5]])
        gradient = torch.randn(len(ids), NUMBERS, dtype=torch.float64, generator=generator)
        given.append((torch.zeros_like(table), ids, gradient))
    return given


def _pushed(arguments: Arguments, sign: int = -1, share: float = 1.0) -> torch.Tensor:
    table = arguments[0][0].clone()
    for _, ids, rows in arguments[1:]:
        table.index_add_(0, ids, sign * share * rows)
    return table


def _last_alone(arguments: Arguments) -> torch.Tensor:
    """Of a row that comes twice from a worker only the last gradient counts."""
    table = arguments[0][0].clone()
    for _, ids, rows in arguments[1:]:
        last = dict(zip(ids.tolist(), rows, strict=True))
        for number, row in last.items():
            table[number] -= row
    return table


PUSH_ROWS = Exercise(
    task="Rank 0 holds `table`. Every other rank has a gradient `rows` for the rows numbered `ids`, and a "
    "number may come twice. Rank 0 is to return `table` minus all of these gradients; what the others return "
    "does not matter. The program is right as long as no number comes twice. **Find the bug and mend it.** "
    "Budget: three messages for each worker, no collective. Leave `table` as it is.",
    stub="""\
def push_rows(table, ids, rows):  # on rank 0 ids and rows are empty
    for message in [torch.tensor([len(ids)]), ids, rows] if rank > 0 else []:
        dist.send(message, dst=0)
    table, count = table.clone(), torch.empty(1, dtype=torch.int64)
    for _ in range(world_size - 1 if rank == 0 else 0):
        worker = dist.recv(count)
        numbers = torch.empty(int(count), dtype=torch.int64)
        dist.recv(numbers, src=worker)
        gradient = table.new_empty(len(numbers), table.shape[1])
        dist.recv(gradient, src=worker)
        table[numbers] -= gradient
    return table
""",
    solution="""\
def push_rows(table, ids, rows):
    for message in [torch.tensor([len(ids)]), ids, rows] if rank > 0 else []:
        dist.send(message, dst=0)
    table, count = table.clone(), torch.empty(1, dtype=torch.int64)
    for _ in range(world_size - 1 if rank == 0 else 0):
        worker = dist.recv(count)
        numbers = torch.empty(int(count), dtype=torch.int64)
        dist.recv(numbers, src=worker)
        gradient = table.new_empty(len(numbers), table.shape[1])
        dist.recv(gradient, src=worker)
        table.index_add_(0, numbers, gradient, alpha=-1)
    return table
""",
    why="table[numbers] -= gradient is three steps: read the rows, subtract, write them back. A row whose "
    "number comes twice is written twice, each time from its old value, and one gradient is lost. "
    "index_add_ adds one after the other; a sparse tensor is coalesced in the same way.",
    hints=(
        "The messages are right. Try table[numbers] += 1 with numbers = torch.tensor([1, 1]) by itself.",
        "table[numbers] -= gradient reads all these rows, then writes all of them. torch.Tensor.index_add_ "
        "adds every row, however often its number comes. Or loop over the rows.",
    ),
    given=_gradients,
    judge=compare_rank_0(
        lambda arguments: [_pushed(arguments)],
        Mistake(
            "Where a worker sends a number twice, only one of the two gradients has counted. Which line "
            "loses the other?",
            lambda arguments: [_last_alone(arguments)],
        ),
        Mistake("You add the gradients. Subtract them.", lambda arguments: [_pushed(arguments, sign=1)]),
        Mistake(
            "You subtract the mean over the workers. Each gradient counts in full.",
            lambda arguments: [_pushed(arguments, share=1 / max(1, len(arguments) - 1))],
        ),
        Mistake("That is the table as it was.", lambda arguments: [arguments[0][0]]),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers talk in messages."),
        Limit("messages", lambda arguments: 3 * (len(arguments) - 1), "How many rows, which ones, the rows."),
    ),
)
