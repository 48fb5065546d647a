"""A pipeline as data: per rank the slots, each a forward or a backward pass of one micro-batch.

Stage s runs on rank s. A rank may have several pieces of the model: then piece p of rank r is stage p * K + r
of K ranks. As a `Schedule` a slot has three steps: receive, compute, send. Built in lesson 17.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from labkit.schedule.description import Schedule
from labkit.schedule.operations import Compute, Recv, Send

STEPS_PER_SLOT = 3


@dataclass(frozen=True)
class Forward:
    """The forward pass of a micro-batch through a stage, which then stores its activations."""

    microbatch: int
    piece: int = 0

    def __str__(self) -> str:
        return f"F{_name(self.microbatch, self.piece)}"


@dataclass(frozen=True)
class Backward:
    """The backward pass of a micro-batch, after which the stage stores its activations no more.

    If the rank also has slots `BackwardWeight`, only the gradient of the stage's input: the other part.
    """

    microbatch: int
    piece: int = 0

    def __str__(self) -> str:
        return f"B{_name(self.microbatch, self.piece)}"


@dataclass(frozen=True)
class BackwardWeight:
    """The gradient of a stage's weights, at any time after its `Backward`: no other rank waits for it."""

    microbatch: int
    piece: int = 0

    def __str__(self) -> str:
        return f"W{_name(self.microbatch, self.piece)}"


def _name(microbatch: int, piece: int) -> str:
    return f"{microbatch}.{piece}" if piece else f"{microbatch}"


Slot = Forward | Backward | BackwardWeight
Slots = Sequence[Sequence[Slot]]
"""Per stage its slots, in the order in which the stage works through them."""


def stored(slots: Slots) -> tuple[tuple[int, ...], ...]:
    """Per stage and slot: of how many micro-batches the stage holds activations during that slot.

    >>> stored([[Forward(0), Forward(1), Backward(0), Backward(1)]])
    ((1, 2, 2, 1),)
    """
    return tuple(
        tuple(count - min(0, change) for change, count in zip(_changes(own), _kept(own), strict=True))
        for own in slots
    )


def _kept(own: Sequence[Slot]) -> Iterable[int]:
    """After each slot."""
    return accumulate(_changes(own))


def _changes(own: Sequence[Slot]) -> list[int]:
    """Of each slot: 1 if it stores activations, -1 if it is the last that needs them."""
    last = BackwardWeight if any(isinstance(slot, BackwardWeight) for slot in own) else Backward
    return [isinstance(slot, Forward) - isinstance(slot, last) for slot in own]


def pipeline_schedule(
    slots: Slots,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 1.0,
    weight: float | Sequence[float] = 1.0,
) -> Schedule:
    """The messages and the computing of a pipeline, which `simulate` times and `run` executes.

    `forward`, `backward` and `weight`: seconds of a slot, one for all ranks or one per rank. Sends do not
    wait (`isend`). Built in lesson 17.

    >>> print(pipeline_schedule([[Forward(0), Backward(0)], [Forward(0), Backward(0)]]))
    step  rank 0                                            rank 1
       0  -                                                 get activation 0 from r0 into input 0
       1  F0                                                F0
       2  send activation 0 to r1                           -
       3  get gradient 0 from r1 into gradient of output 0  -
       4  B0                                                B0
       5  -                                                 send gradient 0 to r0
    """
    times = {Forward: forward, Backward: backward, BackwardWeight: weight}
    seconds = {kind: _per_rank(of, slots) for kind, of in times.items()}
    stages = len(slots) * (1 + max((slot.piece for own in slots for slot in own), default=0))
    return Schedule(
        [
            [step for slot in own for step in _steps(slot, rank, len(slots), stages, seconds)]
            for rank, own in enumerate(slots)
        ],
        chunks=0,
    )


def _steps(slot: Slot, rank: int, ranks: int, stages: int, seconds: dict) -> list[tuple]:
    """What a rank receives, computes and sends in a slot."""
    stage, took = slot.piece * ranks + rank, seconds[type(slot)][rank]
    if isinstance(slot, BackwardWeight):
        return [(), (Compute(str(slot), took),), ()]
    what, kept = ("activation", "input") if isinstance(slot, Forward) else ("gradient", "gradient of output")
    source, to = (stage - 1, stage + 1) if isinstance(slot, Forward) else (stage + 1, stage - 1)
    receives, sends = 0 <= source < stages, 0 <= to < stages
    message = f"{what} {_name(slot.microbatch, slot.piece)}"
    comes = f"{what} {_name(slot.microbatch, source // ranks)}"
    kept_as = f"{kept} {_name(slot.microbatch, slot.piece)}"
    compute = Compute(
        str(slot),
        took,
        reads=(kept_as,) if receives else (),
        produces=(message,) if sends else (),
        frees=(kept_as,) if receives else (),
    )
    return [
        (Recv(source % ranks, comes, into=kept_as),) if receives else (),
        (compute,),
        (Send(to % ranks, message, wait=False),) if sends else (),
    ]


def _per_rank(seconds: float | Sequence[float], slots: Slots) -> Sequence[float]:
    return [seconds] * len(slots) if isinstance(seconds, int | float) else seconds
