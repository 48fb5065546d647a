"""Messages that no other rank takes, sends, or calls by the same name."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.schedule.description import Schedule, Send, label
from labkit.schedule.rendezvous import messages, partners
from labkit.schedule.violation import Violation


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
