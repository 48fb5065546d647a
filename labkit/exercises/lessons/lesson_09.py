"""Lesson 09, Send only the rows you touch: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.pushed_rows import PUSH_ROWS

ROWS, NUMBERS = 50, 6
"""Of the table: rows, and numbers in each."""


def _table_and_ids(generator: torch.Generator, size: int) -> Arguments:
    """The table is on rank 0, the others have zeros of its shape; some numbers come more than once."""
    table = torch.randn(ROWS, NUMBERS, dtype=torch.float64, generator=generator)
    share = 1 / torch.arange(1, ROWS + 1)
    given = []
    for rank in range(size):
        ids = torch.multinomial(share, 24, replacement=True, generator=generator)
        given.append((table if rank == 0 else torch.zeros_like(table), ids))
    return given


def _rows(arguments: Arguments) -> list[torch.Tensor]:
    return [arguments[0][0][ids] for _, ids in arguments]


def _distinct_bytes(arguments: Arguments) -> int:
    return sum(8 * NUMBERS * len(ids.unique()) for _, ids in arguments[1:])


ROWS_FROM_SERVER = Exercise(
    task="Rank 0 holds `table`; on the other ranks it is zeros of the same shape. Return the rows `ids` of "
    "rank 0's table on every rank, each for its own `ids`. Budget: the server sends each worker every row "
    "once, however often its number is in `ids`. There are three messages for each worker: how many rows, "
    "which ones, the rows.",
    stub="""\
def rows_from_server(table, ids):  # float64 [N, D] and int64 [n]
    ...  # your code; ids.unique(return_inverse=True) helps
""",
    solution="""\
def rows_from_server(table, ids):
    if rank > 0:
        touched, where = ids.unique(return_inverse=True)
        rows = table.new_empty(len(touched), table.shape[1])
        dist.send(torch.tensor([len(touched)]), dst=0)
        dist.send(touched, dst=0)
        dist.recv(rows, src=0)
        return rows[where]
    for _ in range(world_size - 1):
        count = torch.empty(1, dtype=torch.int64)
        worker = dist.recv(count)  # whoever comes first
        wanted = torch.empty(int(count), dtype=torch.int64)
        dist.recv(wanted, src=worker)
        dist.send(table[wanted], dst=worker)
    return table[ids]
""",
    why="Popular numbers are in every batch many times. `unique` sends each row once, and `where` puts the "
    "rows back in their places; the backward pass of rows[where] adds up the gradients of a row by itself.",
    hints=(
        "touched, where = ids.unique(return_inverse=True): touched[where] is ids again.",
        "The server needs the length before it can receive the numbers: send it in a message of its own. "
        "worker = dist.recv(count) says who it was; take the next message from that worker.",
    ),
    given=_table_and_ids,
    judge=compare(
        _rows,
        Mistake(
            "These are rows of the rank's own table, and it is zeros: ask the server.",
            lambda arguments: [table[ids] for table, ids in arguments],
        ),
        Mistake(
            "These are the distinct rows in the order of their numbers. Put them back where ids has them: "
            "rows[where].",
            lambda arguments: [arguments[0][0][ids.unique()] for _, ids in arguments],
        ),
        Mistake(
            "This is the whole table. Return its rows ids.", everywhere(lambda arguments: arguments[0][0])
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers talk in messages."),
        Limit(
            "bytes",
            _distinct_bytes,
            "The server sends a row more than once, or one that nobody asked for: unique() the numbers.",
        ),
        Limit("messages", lambda arguments: 3 * (len(arguments) - 1), "How many rows, which ones, the rows."),
    ),
)


LESSON = Lesson(
    number="09",
    title="Send only the rows you touch",
    predictions=(Prediction("rows_saved", "times fewer bytes"),),
    exercises=(ROWS_FROM_SERVER, PUSH_ROWS),
    questions=questions("09"),
)
