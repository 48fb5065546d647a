"""Which send meets which receive, and in what order steps can end."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from labkit.schedule.description import Schedule
from labkit.schedule.operations import Recv, Reduce, Send, holds_up

Position = tuple[int, int, int]
"""Rank, step, place of an operation in its step."""


def messages(schedule: Schedule, rank: int) -> Iterator[tuple[Position, Send | Recv | Reduce]]:
    """What a rank sends and receives, in order."""
    for n, step in enumerate(schedule.steps[rank]):
        for place, operation in enumerate(step):
            if isinstance(operation, (Send, Recv, Reduce)) and operation.peer is not None:
                yield (rank, n, place), operation


def partners(schedule: Schedule) -> dict[Position, Position]:
    """From every send to its receive and back; what meets nothing is not in it."""
    sends, receives = defaultdict(list), defaultdict(list)
    for rank in range(schedule.world_size):
        for position, operation in messages(schedule, rank):
            if isinstance(operation, Send):
                sends[rank, operation.to].append(position)
            else:
                receives[operation.source, rank].append(position)
    found = {}
    for pair, positions in sends.items():
        for one, other in zip(positions, receives[pair], strict=False):
            found[one], found[other] = other, one
    return found


def progress(schedule: Schedule, partner: dict[Position, Position]) -> Iterator[tuple[int, int]]:
    """(rank, step) as the steps end, one order of many; fewer than there are if ranks get stuck.

    A step can end when each message that it waits for has a partner whose rank has come to the step that
    names it.
    """
    at = [0] * schedule.world_size
    expected = [  # per rank and step: the steps of other ranks that it meets
        [
            [partner.get((rank, n, place)) for place, op in enumerate(step) if holds_up(op)]
            for n, step in enumerate(steps)
        ]
        for rank, steps in enumerate(schedule.steps)
    ]
    waiting = defaultdict(list)
    ready = deque(range(schedule.world_size))
    while ready:
        rank = ready.popleft()
        while at[rank] < len(schedule.steps[rank]):
            meets = expected[rank][at[rank]]
            if None in meets:
                break
            late = next(((other, n) for other, n, _ in meets if at[other] < n), None)
            if late:
                waiting[late].append(rank)
                break
            yield rank, at[rank]
            at[rank] += 1
            ready.extend(waiting.pop((rank, at[rank]), ()))
