"""What a schedule may use, and which rank exceeds it in which step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from labkit.schedule.counts import chunk_bytes, memory_use
from labkit.schedule.description import Schedule, Send
from labkit.schedule.violation import Violation


@dataclass(frozen=True)
class Budget:
    """What a schedule may use; None is no limit. Bytes are of a tensor of `nbytes`."""

    nbytes: int = 0
    itemsize: int = 4
    steps: int | None = None
    bytes_per_rank: int | None = None
    bytes_in_all: int | None = None
    memory_per_rank: int | None = None


def over_budget(schedule: Schedule, budget: Budget) -> Iterator[Violation]:
    in_all = 0
    for rank, steps in enumerate(schedule.steps):
        if budget.steps is not None and len(steps) > budget.steps:
            text = f"Rank {rank} takes {len(steps)} steps, and step {budget.steps} is past the budget of {budget.steps}."
            yield Violation("too many steps", (rank,), budget.steps, text)
        sizes = (
            sum(
                chunk_bytes(schedule, op.chunk, budget.nbytes, budget.itemsize)
                for op in step
                if isinstance(op, Send)
            )
            for step in steps
        )
        sent = list(accumulate(sizes))
        in_all += sent[-1] if sent else 0
        used = list(memory_use(schedule, rank, budget.nbytes, budget.itemsize))[1:]
        for kind, verb, counts, limit in (
            ("too many bytes", "has sent", sent, budget.bytes_per_rank),
            ("too much memory", "holds", used, budget.memory_per_rank),
        ):
            n = next((n for n, count in enumerate(counts) if limit is not None and count > limit), None)
            if n is not None:
                most = max(counts)
                text = (
                    f"Rank {rank} {verb} {counts[n]:,} bytes in step {n}, over the budget of {limit:,}; "
                    f"its most is {most:,}."
                )
                yield Violation(kind, (rank,), n, text)
    if budget.bytes_in_all is not None and in_all > budget.bytes_in_all:
        ranks = tuple(range(schedule.world_size))
        text = f"All ranks together send {in_all:,} bytes, over the budget of {budget.bytes_in_all:,}."
        yield Violation("too many bytes", ranks, max(map(len, schedule.steps)) - 1, text)
