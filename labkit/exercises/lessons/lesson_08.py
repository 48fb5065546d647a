"""Lesson 08, Keep the weights on a server: its predictions, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Choice, Exercise, Lesson, Limit, Prediction, Question
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

ROWS, NUMBERS = 50, 6
"""Of the table: rows, and numbers in each."""


def _weights_and_gradients(generator: torch.Generator, size: int) -> Arguments:
    n = 4 + int(torch.randint(60, (), generator=generator))
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _stepped(
    divisor: Callable[[int], int] = lambda size: size - 1, sign: int = -1
) -> Callable[[Arguments], torch.Tensor]:
    """The weights of rank 0 after the step, with another divisor or the other sign if asked."""

    def value(arguments: Arguments) -> torch.Tensor:
        weights, *gradients = (x for (x,) in arguments)
        return weights + sign * sum(gradients) / divisor(len(arguments))

    return value


STEP_ON_SERVER = Exercise(
    task="Rank 0 is the server. Its `x` are the weights, the `x` of every other rank is a gradient. Take one "
    "step with learning rate 1: the weights minus the mean of the workers' gradients. Return the new weights "
    "on every rank. Budget: one push and one answer for each worker, and no collective. Take the gradients "
    "from whoever comes first.",
    stub="""\
def step_on_server(x):  # weights on rank 0, a gradient on the others
    ...  # your code, with dist.send and dist.recv
""",
    solution="""\
def step_on_server(x):
    if rank > 0:
        dist.send(x, dst=0)
        weights = torch.empty_like(x)
        dist.recv(weights, src=0)
        return weights
    total, gradient = torch.zeros_like(x), torch.empty_like(x)
    for _ in range(world_size - 1):
        dist.recv(gradient)  # no src: whoever comes first
        total += gradient
    weights = x - total / (world_size - 1)
    for worker in range(1, world_size):
        dist.send(weights, dst=worker)
    return weights
""",
    why="The server does not care in which order gradients come: a sum has none, to rounding. It must have "
    "all of them before it answers anybody.",
    hints=(
        "Two roles, so an `if rank == 0`. A worker sends, then receives. The server receives R - 1 times, "
        "then sends R - 1 times.",
        "dist.recv(gradient) without src takes a message of any rank. Add each into a total of zeros, divide "
        "by the number of workers.",
    ),
    given=_weights_and_gradients,
    judge=compare(
        everywhere(_stepped()),
        Mistake(
            "You divide by the number of ranks, but the server has no gradient: divide by world_size - 1.",
            everywhere(_stepped(lambda size: size)),
        ),
        Mistake(
            "You subtract the sum of the gradients, not their mean.", everywhere(_stepped(lambda size: 1))
        ),
        Mistake("You add the mean. A step goes against the gradient.", everywhere(_stepped(sign=1))),
        Mistake("These are the weights before the step.", everywhere(lambda arguments: arguments[0][0])),
        Mistake(
            "A worker returns what it was given. It must receive the new weights, into a new tensor.",
            lambda arguments: [None, *(x for (x,) in arguments[1:])],
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Server and workers talk in messages."),
        Limit(
            "messages",
            lambda arguments: 2 * (len(arguments) - 1),
            "Each worker pushes once and is answered once.",
        ),
    ),
)


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
    number="08",
    title="Keep the weights on a server",
    predictions=(Prediction("rows_saved", "times fewer bytes"),),
    exercises=(STEP_ON_SERVER, ROWS_FROM_SERVER),
    questions=(
        Question(
            "32 workers, one server, a dense network. Where is the queue?",
            (
                Choice("at each worker's link", "A worker sends and receives the weights once per step."),
                Choice("at the server's link", "All 32 pulls and all 32 pushes go through it."),
                Choice("nowhere", "The bytes of all workers together pass one link."),
            ),
            right="b",
        ),
        Question(
            "The optimiser has momentum. Where are its buffers?",
            (
                Choice("on every worker", "A worker computes gradients. It never takes a step."),
                Choice("on the server that has the weights", "The optimiser runs where the weights are."),
                Choice(
                    "nowhere, it needs SGD", "The server can run any optimiser: it sees the mean gradient."
                ),
            ),
            right="b",
        ),
        Question(
            "An embedding has a billion rows, a batch touches a thousand. What suits it?",
            (
                Choice("all-reduce of its gradient", "Almost all of the bytes would be zeros."),
                Choice("one row per rank", "Any rank may need any row."),
                Choice("servers that are asked for rows", "Only the touched rows travel, both ways."),
            ),
            right="c",
        ),
    ),
)
