"""Lesson 09, Send only the rows you touch: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.demands import sends_only_to
from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

NO_COLLECTIVE = Limit("collectives", lambda arguments: 0, "Server and workers talk in messages.")
THREE = Limit("messages", lambda arguments: 3 * (len(arguments) - 1), "How many rows, which ones, the rows.")
SERVER_ALONE = sends_only_to(
    lambda rank, size: {0} if rank else set(range(1, size)),
    "A worker talks to the server alone: it knows of no other worker.",
)
ROUNDED = "That is rounded to float32 on the way."


def _table(generator: torch.Generator) -> torch.Tensor:
    """Of another number of rows each time, and of numbers in a row."""
    rows, numbers = (
        40 + int(torch.randint(40, (), generator=generator)),
        3 + int(torch.randint(6, (), generator=generator)),
    )
    return torch.randn(rows, numbers, dtype=torch.float64, generator=generator)


def _table_and_ids(generator: torch.Generator, size: int) -> Arguments:
    """The table is on rank 0, the others have zeros of its shape; some numbers come more than once."""
    table = _table(generator)
    share, given = 1 / torch.arange(1.0, len(table) + 1), []
    for rank in range(size):
        n = 20 + int(torch.randint(20, (), generator=generator))
        ids = torch.multinomial(share, n, replacement=True, generator=generator)
        given.append((table if rank == 0 else torch.zeros_like(table), ids))
    return given


def _distinct_bytes(arguments: Arguments) -> int:
    row = arguments[0][0][0].nbytes
    return sum(row * len(ids.unique()) for _, ids in arguments[1:])


NOT_BACK = "These are the distinct rows in the order of their numbers. Put them back where ids has them: rows[where]."
UNIQUE = "The server sends a row more than once, or one that nobody asked for: unique() the numbers."
WHOLE_TABLE = """\
table = table.clone()
if rank > 0:
    dist.recv(table, 0)
else:
    for worker in range(1, world_size):
        dist.send(table, worker)
return table[ids]"""
ROWS_FROM_SERVER = Exercise(
    task="Rank 0 holds `table`; on the other ranks it is zeros of the same shape. Return the rows `ids` of "
    "rank 0's table on every rank, each for its own `ids`. Budget: the server sends each worker every row "
    "once, however often its number is in `ids`. There are three messages for each worker, and no collective: "
    "how many rows, which ones, the rows. Workers do not talk to one another.",
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
    judge=like_solution(1e-9),
    limits=(NO_COLLECTIVE, Limit("bytes", _distinct_bytes, UNIQUE), THREE),
    demands=(SERVER_ALONE,),
    wrong=(
        body("return table[ids]", says="These are rows of the rank's own table, and it is zeros: ask the server."),
        edit("rows[where]", "rows", "table[ids]", "table[ids.unique()]", says=NOT_BACK),
        edit("rows[where]", "rows", says=NOT_BACK),
        edit("rows[where]", "rows.flip(0)[where]", says="The rows are put back in the wrong order: rows[where]."),
        body(WHOLE_TABLE.replace("table[ids]", "table"), says="This is the whole table. Return its rows ids."),
        edit("        dist.send(touched, dst=0)\n", "", says="deadlock: each waits for another", hangs=True),
        edit("ids.unique(return_inverse=True)", "ids, slice(None)", says=UNIQUE),
        edit("ids.unique(return_inverse=True)", "torch.arange(ids.min(), ids.max() + 1), ids - ids.min()", says=UNIQUE),
        body(WHOLE_TABLE, says=UNIQUE),
        edit("        dist.recv(rows, src=0)\n", "        for row in rows:\n            dist.recv(row, src=0)\n",
             "        dist.send(table[wanted], dst=worker)\n",
             "        for n in wanted:\n            dist.send(table[n], dst=worker)\n", says=THREE.why),
        body("table = table.clone()\ndist.broadcast(table, 0)\nreturn table[ids]", says=NO_COLLECTIVE.why),
        edit("dist.recv(rows, src=0)\n", "rows = rows.float()\n        dist.recv(rows, src=0)\n", "rows[where]",
             "rows.double()[where]", "send(table[wanted]", "send(table[wanted].float()", says=ROUNDED),
        edit("dist.recv(rows, src=0)\n", "rows = rows.float()\n        dist.recv(rows, src=0)\n",
             "send(table[wanted]", "send(table[wanted].float()", says="That is float32, and the table is float64."),
    ),
)  # fmt: skip


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """A table on rank 0; gradients of rows on the others, of which some come twice and some on many ranks."""
    table = _table(generator)
    given = [(table, torch.empty(0, dtype=torch.int64), table[:0])]
    for _ in range(1, size):
        distinct = torch.randperm(len(table), generator=generator)
        once, more = (int(torch.randint(4, 15, (), generator=generator)) for _ in range(2))
        ids = torch.cat([distinct[:once], distinct[: 1 + more // 2], distinct[:2]])
        ids = ids[torch.randperm(len(ids), generator=generator)]
        gradient = torch.randn(len(ids), table.shape[1], dtype=torch.float64, generator=generator)
        given.append((torch.zeros_like(table), ids, gradient))
    return given


def _own_rows(arguments: Arguments) -> int:
    """Of the worker with the most: how many there are, their numbers, and their gradients."""
    return max(8 + ids.nbytes + rows.nbytes for _, ids, rows in arguments)


PUSH = """\
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
"""
ADDED = "table.index_add_(0, numbers, gradient, alpha=-1)"
LOST = (
    "Where a worker sends a number twice, only one of the gradients has counted. Which line loses the other?"
)
PUSH_ROWS = Exercise(
    task="Rank 0 holds `table`. Every other rank has a gradient `rows` for the rows numbered `ids`, and a "
    "number may come twice or more often. Rank 0 is to return `table` minus all of these gradients; what the "
    "others return does not matter. The program is right as long as no number comes twice. **Find the bug and "
    "mend it.** Budget: three messages from each worker to the server, with no more than its own numbers and "
    "rows in them, and no collective. Leave `table` as it is.",
    stub=edited(PUSH, "rows):", "rows):  # on rank 0 ids and rows are empty", ADDED, "table[numbers] -= gradient"),
    solution=PUSH,
    why="table[numbers] -= gradient is three steps: read the rows, subtract, write them back. A row whose "
    "number comes twice is written twice, each time from its old value, and one gradient is lost. "
    "index_add_ adds one after the other; a sparse tensor is coalesced in the same way.",
    hints=(
        "The messages are right. Try table[numbers] += 1 with numbers = torch.tensor([1, 1]) by itself.",
        "table[numbers] -= gradient reads all these rows, then writes all of them. torch.Tensor.index_add_ "
        "adds every row, however often its number comes. Or loop over the rows.",
    ),
    given=_gradients,
    answer=lambda arguments, result: result,
    judge=like_solution(1e-9, only_rank_0=True),
    limits=(
        NO_COLLECTIVE,
        THREE,
        Limit("bytes", _own_rows, "A worker sends its own numbers and rows, and nothing of the rest of the table."),
    ),
    demands=(SERVER_ALONE,),
    wrong=(
        edit(ADDED, "table[numbers] = table[numbers] - gradient", says=LOST),
        edit(ADDED, "last = {k: g for k, g in zip(numbers.tolist(), gradient)}\n        for k, g in last.items():\n"
             "            table[k] -= g", says=LOST),
        edit("alpha=-1", "alpha=1", says="You add the gradients. Subtract them."),
        edit("alpha=-1", "alpha=-1 / (world_size - 1)",
             says="You subtract the mean over the workers. Each gradient counts in full."),
        edit("    for _", "    new = table\n    for _", ADDED, ADDED.replace("table.index_add_", "table = new.index_add"),
             says="rank 0 is wrong"),  # who comes last is chance: no other run has the same values
        edit(ADDED, "pass", says="That is the table as it was."),
        edit(ADDED, "n = numbers.bincount(minlength=len(table))[numbers]\n"
             "        table.index_add_(0, numbers, gradient / n[:, None], alpha=-1)",
             says="That is the mean of the gradients of a row that comes more than once. Each counts in full."),
        edit(ADDED, "kept = dict.fromkeys(numbers.tolist())\n        for k in kept:\n"
             "            table[k] -= gradient[numbers.tolist().index(k)]",
             says="Of a number that comes more than once only the first gradient has counted."),
        edit(ADDED, "seen = {}\n        for k, g in zip(numbers.tolist(), gradient):\n            seen.setdefault(k, []).append(g)\n"
             "        for k, g in seen.items():\n            table[k] -= sum(g[:2])",
             says="A number may come more often than twice."),
        edit("alpha=-1)", "alpha=-1)\n        table = table.float().double()", says=ROUNDED),
        edit("return table", "table", says="Nothing came back"),
        edit("ids, rows] if", "ids] if", says="deadlock", hangs=True),
        edit("rows] if", "*rows] if", "        dist.recv(gradient, src=worker)\n",
             "        for row in gradient:\n            dist.recv(row, src=worker)\n", says=THREE.why),
        body("""\
total = torch.zeros_like(table)
total.index_add_(0, ids, rows)
dist.reduce(total, 0)
return table - total""", says=NO_COLLECTIVE.why),
        body("""\
dense = torch.zeros_like(table).index_add_(0, ids, rows)
if rank > 0:
    dist.send(dense, 0)
    return table
for _ in range(world_size - 1):
    dist.recv(dense)
    table = table - dense
return table""", says="A worker sends its own numbers and rows, and nothing of the rest of the table."),
    ),
)  # fmt: skip


LESSON = Lesson(
    number="09",
    title="Send only the rows you touch",
    predictions=(Prediction("rows_saved", "times fewer bytes"),),
    exercises=(ROWS_FROM_SERVER, PUSH_ROWS),
    questions=questions("09"),
)
