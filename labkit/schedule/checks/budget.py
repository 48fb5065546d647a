"""What a schedule may use, and which rank exceeds it in which step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from labkit.schedule.checks.violation import Violation
from labkit.schedule.counts import chunk_bytes, memory_use
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Send


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
    """Each rank that exceeds a limit, with the first step in which it does."""
    tensor, in_all = (budget.nbytes, budget.itemsize), 0
    for rank, steps in enumerate(schedule.steps):
        sizes = (
            sum(chunk_bytes(schedule, op.chunk, *tensor) for op in step if isinstance(op, Send))
            for step in steps
        )
        sent = list(accumulate(sizes))
        in_all += sent[-1] if sent else 0
        _, *held = memory_use(schedule, rank, *tensor)
        for kind, counts, limit, text in (
            ("too many steps", range(1, len(steps) + 1), budget.steps, "takes {} steps, not at most {}"),
            ("too many bytes", sent, budget.bytes_per_rank, "sends {:,} bytes, not at most {:,}"),
            ("too much memory", held, budget.memory_per_rank, "holds {:,} bytes, not at most {:,}"),
        ):
            n = next((n for n, count in enumerate(counts) if limit is not None and count > limit), None)
            if n is not None:
                said = text.format(max(counts), limit)
                yield Violation(
                    kind, (rank,), n, f"Rank {rank} {said}: step {n} is the first over the budget."
                )
    if budget.bytes_in_all is not None and in_all > budget.bytes_in_all:
        said = f"Ranks 0 to {schedule.world_size - 1} send {in_all:,} bytes in all"
        text = f"{said}, not at most {budget.bytes_in_all:,}, by the last step."
        yield Violation(
            "too many bytes", tuple(range(schedule.world_size)), max(map(len, schedule.steps)) - 1, text
        )
