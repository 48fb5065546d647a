"""Operations of one step that use and change the same chunk."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.schedule.counts import read, written
from labkit.schedule.description import Reduce, Schedule, Send, Step, label
from labkit.schedule.violation import Violation


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
