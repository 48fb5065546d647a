"""What every rank holds after every step: whose contributions, or which values. Pure, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import numpy as np

from labkit import LabError
from labkit.schedule.access import freed, read, target, written
from labkit.schedule.chunks import atoms, boundary, label
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Compute, Copy, Operation, Recv, Reduce, Send
from labkit.schedule.rendezvous import partners, progress

Memory = dict
"""From a chunk's number or a buffer's name to its content."""


def states(schedule: Schedule, tensors: Sequence | None = None) -> tuple[tuple[Memory, ...], ...]:
    """What each rank holds before the first step and after each: `states(schedule)[n][rank][chunk]`.

    A content is the sorted tuple of the ranks whose parts are in the sum: (0, 1, 1) counts rank 1 twice.
    A buffer made by a `Compute` holds its label. With `tensors`, one flat array per rank, a content is the
    array of values, and a schedule with `Compute` is refused. Built in lesson 07.

    >>> from labkit.schedule import Recv, Schedule, Send
    >>> states(Schedule([[Send(1, 0)], [Recv(0, 0)]]))
    (({0: (0,)}, {0: (1,)}), ({0: (0,)}, {0: (0,)}))
    """
    if tensors is None:
        start = [dict.fromkeys(range(schedule.chunks), (rank,)) for rank in range(schedule.world_size)]
        add: Callable = join
    else:
        start, add = [_cut(np.asarray(tensor), schedule.chunks) for tensor in tensors], np.add
    count = max(map(len, schedule.steps), default=0)
    history = [[dict(memory)] for memory in start]
    for rank, _, memory in interpret(schedule, start, add, _refuse):
        history[rank].append(dict(memory))
    for rank, held in enumerate(history):
        if len(held) <= len(schedule.steps[rank]):
            raise LabError(
                "what each rank holds after each step",
                f"rank {rank} never ends its step {len(held) - 1}",
                "`check(schedule)` says who waits for whom",
            )
        held.extend(held[-1:] * (count + 1 - len(held)))
    return tuple(zip(*history, strict=True))


def execute(schedule: Schedule, tensors: Sequence) -> list[np.ndarray]:
    """Run a schedule in memory: one flat array per rank goes in, one comes out."""
    after = states(schedule, tensors)[-1]
    return [np.concatenate([held[chunk] for chunk in range(schedule.chunks)]) for held in after]


def interpret(
    schedule: Schedule,
    memories: list[Memory],
    add: Callable,
    missing: Callable[[int, int, Operation, int | str], object],
) -> Iterator[tuple[int, int, Memory]]:
    """Yield rank, step and the rank's memory as the steps end. Changes `memories`, never a content.

    `missing` is asked for the content that an operation needs and its rank does not hold.
    """
    partner, sent = partners(schedule), {}

    def contents(rank: int, n: int, operation: Operation) -> list:
        memory = memories[rank]
        return [
            memory[atom] if atom in memory else missing(rank, n, operation, atom) for atom in read(operation)
        ]

    def post(rank: int, n: int) -> None:
        for place, operation in enumerate(schedule.steps[rank][n] if n < len(schedule.steps[rank]) else ()):
            if isinstance(operation, Send):
                sent[rank, n, place] = contents(rank, n, operation)

    for rank in range(schedule.world_size):
        post(rank, 0)
    for rank, n in progress(schedule, partner):
        memory, step = memories[rank], schedule.steps[rank][n]
        found = [  # all read before any writes
            sent.pop(partner[rank, n, place])
            if isinstance(operation, Recv | Reduce) and operation.source is not None
            else contents(rank, n, operation)
            for place, operation in enumerate(step)
        ]
        for operation, values in zip(step, found, strict=True):
            match operation:
                case Recv() | Copy():
                    memory.update(zip(atoms(target(operation)), values, strict=False))
                case Reduce():
                    for atom, value in zip(atoms(target(operation)), values, strict=False):
                        memory[atom] = add(memory[atom], value) if atom in memory else value
                case Compute():
                    memory.update(dict.fromkeys(written(operation), (operation.label,)))
        for operation in step:
            for atom in freed(operation):
                memory.pop(atom, None)
        yield rank, n, memory
        post(rank, n + 1)


def join(one: tuple, other: tuple) -> tuple:
    """The sum of two sums, by whose parts are in it."""
    return tuple(sorted(one + other))


def _cut(tensor: np.ndarray, chunks: int) -> Memory:
    edges = [boundary(tensor.size, chunks, index) for index in range(chunks + 1)]
    return {index: tensor[edges[index] : edges[index + 1]] for index in range(chunks)}


def _refuse(rank: int, n: int, operation: Operation, atom: int | str) -> NoReturn:
    raise LabError(
        f"{operation} (rank {rank}, step {n})",
        f"rank {rank} does not hold {label(atom)} then",
        "`check(schedule)` names every such step",
    )
