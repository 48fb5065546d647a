"""What is wrong with a pipeline, found without running it: one sentence each, with rank, slot and reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from labkit.schedule.checks import violations
from labkit.schedule.checks.violation import Violation
from labkit.schedule.pipeline import STEPS_PER_SLOT, Backward, Forward, Slots, pipeline_schedule, stored


def pipeline_violations(
    slots: Slots, microbatches: int, room: int | Sequence[int] | None = None
) -> tuple[Violation, ...]:
    """Everything wrong with a pipeline, in the order in which a learner should mend it.

    Passes that are missing, done twice, or of a micro-batch that does not exist; backward before forward;
    neighbours that take micro-batches in different orders; deadlock; at last a stage that stores the
    activations of more than `room` micro-batches, one number or one per stage. `step` of a Violation is the
    slot. Built in lesson 17.
    """
    found = [*_wrong_passes(slots, microbatches)] or [*_backward_first(slots)]
    found = found or [_in_slots(one) for one in violations(pipeline_schedule(slots))]
    if not found and room is not None:
        found += _too_much_stored(slots, room)
    return tuple(found)


def _wrong_passes(slots: Slots, microbatches: int) -> Iterator[Violation]:
    wanted = {make(m) for m in range(microbatches) for make in (Forward, Backward)}
    for rank, own in enumerate(slots):
        seen: dict = {}
        for n, slot in enumerate(own):
            if slot not in wanted:
                yield Violation(
                    "no such pass",
                    (rank,),
                    n,
                    f"Rank {rank} has {slot!s} in slot {n}, and the last micro-batch is {microbatches - 1}.",
                )
            elif slot in seen:
                text = f"Rank {rank} does {slot} in slot {n}, and has done it in slot {seen[slot]}."
                yield Violation("done twice", (rank,), n, text)
            seen.setdefault(slot, n)
        if missing := sorted(map(str, wanted - set(seen))):
            said = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            ends = f"ends after slot {len(own) - 1}" if own else "has no slot, and so ends"
            yield Violation(
                "missing pass", (rank,), max(0, len(own) - 1), f"Rank {rank} {ends} without {said}."
            )


def _backward_first(slots: Slots) -> Iterator[Violation]:
    for rank, own in enumerate(slots):
        done = set()
        for n, slot in enumerate(own):
            if isinstance(slot, Backward) and Forward(slot.microbatch) not in done:
                text = (
                    f"Rank {rank} does {slot} in slot {n}, before {Forward(slot.microbatch)}: "
                    "it has stored nothing to go back through."
                )
                yield Violation("backward before forward", (rank,), n, text)
            done.add(slot)


def _in_slots(one: Violation) -> Violation:
    """What was said of steps, said of slots."""
    sentence = re.sub(r"\bstep (\d+)", lambda found: f"slot {int(found[1]) // STEPS_PER_SLOT}", one.sentence)
    return replace(one, step=one.step // STEPS_PER_SLOT, sentence=sentence)


def _too_much_stored(slots: Slots, room: int | Sequence[int]) -> Iterator[Violation]:
    rooms = [room] * len(slots) if isinstance(room, int) else room
    for rank, (counts, most) in enumerate(zip(stored(slots), rooms, strict=True)):
        n = next((n for n, count in enumerate(counts) if count > most), None)
        if n is not None:
            text = (
                f"Rank {rank} stores {max(counts)} micro-batches, and has room for {most}: "
                f"slot {n} ({slots[rank][n]}) is the first with more."
            )
            yield Violation("too much memory", (rank,), n, text)
