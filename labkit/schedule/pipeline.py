"""A pipeline as data: per stage the slots, each a forward or a backward pass of one micro-batch.

Stage s runs on rank s. As a `Schedule` a slot has three steps: receive, compute, send. Built in lesson 17.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from labkit.schedule.description import Compute, Recv, Schedule, Send

STEPS_PER_SLOT = 3


@dataclass(frozen=True)
class Forward:
    """The forward pass of a micro-batch through a stage, which then stores its activations."""

    microbatch: int

    def __str__(self) -> str:
        return f"F{self.microbatch}"


@dataclass(frozen=True)
class Backward:
    """The backward pass of a micro-batch, after which the stage stores its activations no more."""

    microbatch: int

    def __str__(self) -> str:
        return f"B{self.microbatch}"


Slot = Forward | Backward
Slots = Sequence[Sequence[Slot]]
"""Per stage its slots, in the order in which the stage works through them."""


def stored(slots: Slots) -> tuple[tuple[int, ...], ...]:
    """Per stage and slot: of how many micro-batches the stage holds activations during that slot.

    >>> stored([[Forward(0), Forward(1), Backward(0), Backward(1)]])
    ((1, 2, 2, 1),)
    """
    return tuple(
        tuple(count + isinstance(slot, Backward) for slot, count in zip(own, _kept(own), strict=True))
        for own in slots
    )


def _kept(own: Sequence[Slot]) -> Iterable[int]:
    """After each slot."""
    return accumulate(1 if isinstance(slot, Forward) else -1 for slot in own)


def pipeline_schedule(
    slots: Slots,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 1.0,
) -> Schedule:
    """The messages and the computing of a pipeline, which `simulate` times and `run` executes.

    `forward` and `backward`: seconds of a slot, one for all stages or one per stage. Sends do not wait
    (`isend`). Built in lesson 17.

    >>> print(pipeline_schedule([[Forward(0), Backward(0)], [Forward(0), Backward(0)]]))
    step  rank 0                                            rank 1
       0  -                                                 get activation 0 from r0 into input 0
       1  F0                                                F0
       2  send activation 0 to r1                           -
       3  get gradient 0 from r1 into gradient of output 0  -
       4  B0                                                B0
       5  -                                                 send gradient 0 to r0
    """
    last = len(slots) - 1
    seconds = {Forward: _per_stage(forward, slots), Backward: _per_stage(backward, slots)}
    steps = []
    for stage, own in enumerate(slots):
        steps.append([])
        for slot in own:
            m, is_forward = slot.microbatch, isinstance(slot, Forward)
            message = f"{'activation' if is_forward else 'gradient'} {m}"
            kept_as = f"{'input' if is_forward else 'gradient of output'} {m}"
            source, to = (stage - 1, stage + 1) if is_forward else (stage + 1, stage - 1)
            receives, sends = 0 <= source <= last, 0 <= to <= last
            compute = Compute(
                str(slot),
                seconds[type(slot)][stage],
                reads=(kept_as,) if receives else (),
                produces=(message,) if sends else (),
                frees=(kept_as,) if receives else (),
            )
            steps[-1] += [
                (Recv(source, message, into=kept_as),) if receives else (),
                (compute,),
                (Send(to, message, wait=False),) if sends else (),
            ]
    return Schedule(steps, chunks=0)


def _per_stage(seconds: float | Sequence[float], slots: Slots) -> Sequence[float]:
    return [seconds] * len(slots) if isinstance(seconds, int | float) else seconds
