"""What ranks hold, to draw: every collective, and a ring all-reduce step by step, at any world size."""

import numpy as np

from labkit.figures.cells import Cell
from labkit.figures.steps import Message, State
from labkit.figures.tiles import split


def collectives(world_size):
    """(panels, owners) for `data_state`: rank r has r + 1, so that only the sum of all is larger."""
    ranks = range(world_size)
    one = [[rank + 1] for rank in ranks]
    whole = [[rank + 1] * world_size for rank in ranks]
    everything = [[rank + 1 for rank in ranks]] * world_size
    total = world_size * (world_size + 1) // 2
    nothing = [[] for _ in ranks]

    def only_root(numbers):
        return [numbers, *nothing[1:]]

    panels = [
        ("broadcast", only_root(whole[0]), [whole[0]] * world_size),
        ("scatter", only_root(everything[0]), one),
        ("gather", one, only_root(everything[0])),
        ("reduce", whole, only_root([total] * world_size)),
        ("all_gather", one, everything),
        ("reduce_scatter", whole, [[total]] * world_size),
        ("all_reduce", whole, [[total] * world_size] * world_size),
        ("all_to_all", whole, everything),
    ]
    return panels, lambda number: ranks if number > world_size else [number - 1]


def ring(world_size):
    """The states of a ring all-reduce: reduce-scatter, then all-gather. Rank r has r + 1 in every chunk."""
    held = np.repeat(np.arange(1, world_size + 1)[:, None], world_size, axis=1)
    owners = [[{rank} for _ in range(world_size)] for rank in range(world_size)]
    states = [_state("start", held, owners, ())]
    for step in range(2 * (world_size - 1)):
        adds = step < world_size - 1
        shift = -step if adds else world_size - step
        messages = tuple(
            Message(rank, (rank + 1) % world_size, (rank + shift) % world_size) for rank in range(world_size)
        )
        sent = [(held[m.source, m.chunk], owners[m.source][m.chunk]) for m in messages]
        for message, (value, whose) in zip(messages, sent, strict=True):
            held[message.to, message.chunk] = value + adds * held[message.to, message.chunk]
            mine = owners[message.to][message.chunk] if adds else set()
            owners[message.to][message.chunk] = mine | whose
        phase = "reduce-scatter" if adds else "all-gather"
        states.append(_state(f"{step + 1}: {phase}", held, owners, messages))
    assert (held == world_size * (world_size + 1) // 2).all()
    return states


def products(world_size):
    """A product of matrices that are split by columns, by rows, and both, as equally as can be."""
    n, m = world_size, 4 if world_size < 16 else 16
    high = next(k for k in range(int(n**0.5), 0, -1) if n % k == 0)
    wide, shape = n // high, (m, max(8, n))
    square = (max(8, n),) * 2

    def part(rank):
        return rank, n

    def row(rank):
        return rank // wide, high

    def column(rank):
        return rank % wide, wide

    return {
        "by columns": [
            split("X", shape, n),
            split("A", square, n, columns=part),
            split("Y", shape, n, columns=part),
        ],
        "by rows": [
            split("X", shape, n, columns=part),
            split("A", square, n, rows=part),
            split("Y", shape, n, partial=True),
        ],
        "by both": [
            split("X", shape, n, columns=row),
            split("A", square, n, rows=row, columns=column),
            split("Y", shape, n, columns=column, partial=True),
        ],
    }


def _state(name, held, owners, messages):
    rows = (
        tuple(Cell(int(value), tuple(sorted(whose))) for value, whose in zip(values, whose_row, strict=True))
        for values, whose_row in zip(held, owners, strict=True)
    )
    return State(name, tuple(rows), messages)
