"""Follow whose part is in which chunk: data that is missing, sums that lack a part or count it twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from labkit.schedule.access import written
from labkit.schedule.checks.violation import Violation
from labkit.schedule.chunks import label
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Operation
from labkit.schedule.states import interpret, join


def missing_data(schedule: Schedule) -> list[Violation]:
    """Every operation that needs what its rank does not hold."""
    found = []

    def missing(rank: int, n: int, operation: Operation, atom: int | str) -> tuple[()]:
        text = f"Rank {rank} needs {label(atom)} in step {n} ({operation}), and does not hold it then."
        found.append(Violation("missing data", (rank,), n, text))
        return ()

    for _ in interpret(schedule, _parts(schedule), join, missing):
        pass
    return found


def wrong_sums(schedule: Schedule) -> Iterator[Violation]:
    """Every chunk that does not end as the sum of each rank's part once; for a schedule that ends."""
    memories, doubled = _parts(schedule), {}
    for rank, n, memory in interpret(schedule, memories, join, lambda *_: ()):
        for operation in schedule.steps[rank][n]:
            for atom in written(operation):
                if _twice(memory.get(atom, ())) is None:
                    doubled.pop((rank, atom), None)
                else:
                    doubled.setdefault((rank, atom), n)
    for rank, memory in enumerate(memories):
        last = len(schedule.steps[rank]) - 1
        for chunk in range(schedule.chunks):
            parts = memory.get(chunk, ())
            lacks = sorted(set(range(schedule.world_size)) - set(parts))
            if (rank, chunk) in doubled:
                n = doubled[rank, chunk]
                whose = _twice(parts)
                text = f"Rank {rank} counts rank {whose}'s part of {label(chunk)} twice from step {n} on."
                yield Violation("counted twice", (rank,), n, text)
            if lacks:
                ranks = ", ".join(map(str, lacks))
                text = (
                    f"Rank {rank} ends with step {last}, and {label(chunk)} lacks the part of rank {ranks}."
                )
                yield Violation("incomplete", (rank,), last, text)


def _parts(schedule: Schedule) -> list[dict]:
    return [dict.fromkeys(range(schedule.chunks), (rank,)) for rank in range(schedule.world_size)]


def _twice(parts: tuple) -> int | None:
    return next((one for one, times in Counter(parts).items() if times > 1), None)
