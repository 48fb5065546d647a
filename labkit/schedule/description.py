"""A schedule is data: what every rank sends, receives and computes, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labkit import LabError
from labkit.schedule.operations import Compute, Operation, Step


@dataclass(frozen=True)
class Schedule:
    """Per rank its steps, per step the operations that run at the same time.

    All operations of a step read before any of them writes. A step ends when all its operations have
    ended, and a message passes when both its ranks have come to the steps that name it (rendezvous). The
    n-th send from a rank to another meets that one's n-th receive from it.

    The tensor is cut into `chunks` parts as `torch.tensor_split` cuts it, and every rank starts with all
    parts of its own tensor; with `chunks` 0 it starts with nothing. Buffers that have a name are as large
    as the whole tensor, or `sizes` times as large. Built in lesson 07.

    >>> from labkit.schedule import Recv, Schedule, Send
    >>> print(Schedule([[Send(1, 0)], [Recv(0, 0)]]))
    step  rank 0        rank 1
       0  send 0 to r1  get 0 from r0
    """

    steps: tuple[tuple[Step, ...], ...]
    chunks: int = 1
    sizes: tuple[tuple[str, float], ...] = field(default=())

    if TYPE_CHECKING:  # what may be given: any sequences, and an operation for the step that holds it alone

        def __init__(
            self,
            steps: Iterable[Iterable[Operation | Sequence[Operation]]],
            chunks: int = 1,
            sizes: tuple[tuple[str, float], ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(tuple(map(_step, steps)) for steps in self.steps))

    @property
    def world_size(self) -> int:
        return len(self.steps)

    def __add__(self, after: Schedule) -> Schedule:
        """Every rank does its steps of this schedule, then those of the other."""
        if self.world_size != after.world_size or 0 < self.chunks != after.chunks > 0:
            raise LabError(
                "one schedule after another",
                f"{self!r} and {after!r}",
                "join schedules of as many ranks and chunks; 0 chunks go with any number",
            )
        steps = (a + b for a, b in zip(self.steps, after.steps, strict=True))
        return Schedule(steps, max(self.chunks, after.chunks), tuple(dict(self.sizes + after.sizes).items()))

    def __repr__(self) -> str:
        counts = ((self.world_size, "rank"), (max(map(len, self.steps), default=0), "step"))
        words = [_count(*pair) for pair in (*counts, (self.chunks, "chunk"))]
        return f"Schedule({', '.join(words)})"

    def __str__(self) -> str:
        return table(self)


def compute(world_size: int, label: str, seconds: float) -> Schedule:
    """One step in which every rank computes; `compute(...) + ring(...)` is a training step."""
    return Schedule([[Compute(label, seconds)]] * world_size, chunks=0)


def table(schedule: Schedule, ranks: range | None = None) -> str:
    """One row per step, one column per rank (all of them, or those named)."""
    ranks = range(schedule.world_size) if ranks is None else ranks
    columns = [["step", *map(str, range(max(map(len, schedule.steps), default=0)))]]
    for rank in ranks:
        columns.append([f"rank {rank}", *("; ".join(map(str, step)) or "-" for step in schedule.steps[rank])])
    height, widths = len(columns[0]), [max(map(len, column)) for column in columns]
    columns = [column + [""] * (height - len(column)) for column in columns]
    rows = (
        [cells[0].rjust(widths[0]), *map(str.ljust, cells[1:], widths[1:])]
        for cells in zip(*columns, strict=True)
    )
    return "\n".join("  ".join(row).rstrip() for row in rows)


def _step(step: Operation | Iterable[Operation]) -> Step:
    """A step as a tuple, from any iterable, or from one operation that stands for itself."""
    step = (step,) if isinstance(step, Operation) else tuple(step)
    for operation in step:
        if not isinstance(operation, Operation):
            raise LabError(
                "a step of a schedule", f"{operation!r} in it", "use Send, Recv, Reduce, Copy or Compute"
            )
    return step


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
