"""Messages that no other rank takes, sends, or calls by the same name."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.schedule.description import Schedule, Send, label
from labkit.schedule.rendezvous import messages, partners, peer
from labkit.schedule.violation import Violation


def wrong_peers(schedule: Schedule) -> Iterator[Violation]:
    last = schedule.world_size - 1
    for rank in range(schedule.world_size):
        for (_, n, _), operation in messages(schedule, rank):
            if peer(operation) == rank:
                yield Violation("peer", (rank,), n, f"Rank {rank} names itself in step {n}: {operation}.")
            elif not 0 <= peer(operation) <= last:
                yield Violation(
                    "peer",
                    (rank,),
                    n,
                    f"Rank {rank} names rank {peer(operation)} in step {n}; the last is {last}.",
                )


def lost_messages(schedule: Schedule) -> Iterator[Violation]:
    met = partners(schedule)
    for rank in range(schedule.world_size):
        for position, operation in messages(schedule, rank):
            other, n = peer(operation), position[1]
            if position in met or other == rank or not 0 <= other < schedule.world_size:
                continue
            what = label(operation.chunk)
            if isinstance(operation, Send):
                text = f"Rank {rank} sends {what} to rank {other} in step {n}, and rank {other} never receives it."
            else:
                text = f"Rank {rank} waits in step {n} for {what} from rank {other}, which never sends it."
            yield Violation("lost message", (rank, other), n, text)


def wrong_chunks(schedule: Schedule) -> Iterator[Violation]:
    for position, other in partners(schedule).items():
        receive, send = (schedule.steps[rank][n][place] for rank, n, place in (position, other))
        if isinstance(send, Send) and receive.chunk != send.chunk:
            text = (
                f"Rank {position[0]} wants {label(receive.chunk)} in step {position[1]}, "
                f"but rank {other[0]} sends it {label(send.chunk)} (its step {other[1]})."
            )
            yield Violation("wrong chunk", (position[0], other[0]), position[1], text)
