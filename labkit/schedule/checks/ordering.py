"""Operations that do not fit each other: no match for a message, a race in a step, a circle of waiting."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.schedule.access import read, written
from labkit.schedule.checks.violation import Violation
from labkit.schedule.chunks import label
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Reduce, Send, Step, holds_up
from labkit.schedule.rendezvous import Position, messages, partners, progress


def wrong_peers(schedule: Schedule) -> Iterator[Violation]:
    """Messages to or from a rank that does not exist, or the rank itself."""
    last = schedule.world_size - 1
    for rank in range(schedule.world_size):
        for (_, n, _), operation in messages(schedule, rank):
            if operation.peer == rank or not 0 <= operation.peer <= last:
                who = "itself" if operation.peer == rank else f"rank {operation.peer}, and the last is {last}"
                yield Violation(
                    "wrong peer", (rank,), n, f"Rank {rank} in step {n} names {who}: {operation}."
                )


def lost_messages(schedule: Schedule) -> Iterator[Violation]:
    """Sends that nobody receives, and receives that nobody sends: the first from each rank to each other."""
    met, told = partners(schedule), set()
    for rank in range(schedule.world_size):
        for position, operation in messages(schedule, rank):
            other, n, sends = operation.peer, position[1], isinstance(operation, Send)
            exists = other != rank and 0 <= other < schedule.world_size
            if position in met or not exists or (rank, other, sends) in told:
                continue
            told.add((rank, other, sends))
            what = label(operation.chunk)
            if sends:
                text = f"Rank {rank} sends {what} to rank {other} in step {n}, which never receives it."
            else:
                text = f"Rank {rank} waits in step {n} for {what} from rank {other}, which never sends it."
            yield Violation("lost message", (rank, other), n, text)


def wrong_chunks(schedule: Schedule) -> Iterator[Violation]:
    """Messages that their two ranks call by different names."""
    for position, other in partners(schedule).items():
        receive, send = (schedule.steps[rank][n][place] for rank, n, place in (position, other))
        if isinstance(send, Send) and receive.chunk != send.chunk:
            text = (
                f"Rank {position[0]} wants {label(receive.chunk)} in step {position[1]}, "
                f"but rank {other[0]} sends it {label(send.chunk)} (its step {other[1]})."
            )
            yield Violation("wrong chunk", (position[0], other[0]), position[1], text)


def races(schedule: Schedule) -> Iterator[Violation]:
    """What one operation writes, no other of its step may read or write, for both run at once.

    Two things are allowed, for messages are added when all have passed: to add to a chunk several times,
    and to send it too.
    """
    for rank, steps in enumerate(schedule.steps):
        for n, step in enumerate(steps):
            for atom in dict.fromkeys(atom for operation in step for atom in written(operation)):
                if _clash(step, atom):
                    text = f"Rank {rank} uses and changes {label(atom)} at the same time in step {n}."
                    yield Violation("race", (rank,), n, text)


def _clash(step: Step, atom: int | str) -> bool:
    writers = [operation for operation in step if atom in written(operation)]
    readers = [operation for operation in step if atom in read(operation) and operation not in writers]
    if all(isinstance(operation, Reduce) for operation in writers):
        return not all(isinstance(operation, Send) for operation in readers)
    return len(writers) > 1 or bool(readers)


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


def _wait(
    schedule: Schedule, partner: dict[Position, Position], at: list[int], rank: int
) -> tuple[int | None, str]:
    """For whom a rank waits in the step where it stands, and for what; (None, "") if for nobody."""
    n = at[rank]
    for place, operation in enumerate(schedule.steps[rank][n] if n < len(schedule.steps[rank]) else ()):
        other, when, _ = partner.get((rank, n, place), (rank, 0, 0))
        if holds_up(operation) and at[other] < when:
            what = label(operation.chunk)
            verb = f"sends {what} to" if isinstance(operation, Send) else f"expects {what} from"
            return other, f"{verb} rank {operation.peer}"
    return None, ""
