"""Ranks that wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.schedule.description import Schedule, Send, holds_up, label
from labkit.schedule.rendezvous import partners, progress
from labkit.schedule.violation import Violation


def deadlocks(schedule: Schedule) -> Iterator[Violation]:
    """One violation per circle. Ranks that wait for a circle or a lost message have none of their own."""
    partner = partners(schedule)
    at = [0] * schedule.world_size
    for rank, n in progress(schedule, partner):
        at[rank] = n + 1
    waits = {rank: _wait(schedule, partner, at, rank) for rank in range(schedule.world_size)}
    seen = set()
    for start in waits:
        path, rank = [], start
        while rank is not None and rank not in seen:
            seen.add(rank)
            path.append(rank)
            rank = waits[rank][0]
        if rank in path:
            circle = path[path.index(rank) :]
            said = ", ".join(f"rank {one} in step {at[one]} {waits[one][1]}" for one in circle)
            text = f"Deadlock: {said}; each waits for the next."
            yield Violation("deadlock", tuple(circle), at[circle[0]], text)


def _wait(schedule, partner, at, rank) -> tuple[int | None, str]:
    """For whom a rank waits in the step where it stands, and for what; (None, "") if for nobody."""
    n = at[rank]
    for place, operation in enumerate(schedule.steps[rank][n] if n < len(schedule.steps[rank]) else ()):
        other, when, _ = partner.get((rank, n, place), (rank, 0, 0))
        if holds_up(operation) and at[other] < when:
            what = label(operation.chunk)
            verb = f"sends {what} to" if isinstance(operation, Send) else f"expects {what} from"
            return other, f"{verb} rank {operation.peer}"
    return None, ""
