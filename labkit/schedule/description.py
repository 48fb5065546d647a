"""A schedule is data: what every rank sends, receives and computes, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labkit import LabError
from labkit.schedule.chunks import Chunk, short


@dataclass(frozen=True)
class Send:
    """Send a chunk to another rank; ends when the receiver has taken it.

    With `wait` False the rank goes on at once (`isend`), and waits only after its last step. What is sent
    must not change before it has been taken.
    """

    to: int
    chunk: Chunk
    wait: bool = True

    @property
    def peer(self) -> int:
        return self.to

    def __str__(self) -> str:
        return f"send {short(self.chunk)} to r{self.to}"


@dataclass(frozen=True)
class Recv:
    """Receive the chunk that `source` sends under this name, and keep it there or in `into`."""

    source: int
    chunk: Chunk
    into: Chunk | None = None

    @property
    def peer(self) -> int:
        return self.source

    def __str__(self) -> str:
        return f"get {short(self.chunk)} from r{self.source}{_into(self)}"


@dataclass(frozen=True)
class Reduce:
    """Receive a chunk and add it to one's own of that name, or to `into`.

    `source` None takes the chunk from one's own memory. A buffer that does not exist yet starts as what
    is added first.
    """

    source: int | None
    chunk: Chunk
    into: Chunk | None = None

    @property
    def peer(self) -> int | None:
        return self.source

    def __str__(self) -> str:
        origin = "" if self.source is None else f" from r{self.source}"
        return f"add {short(self.chunk)}{origin}{_into(self)}"


@dataclass(frozen=True)
class Copy:
    """Copy a chunk within one's own memory."""

    chunk: Chunk
    into: Chunk
    peer = None

    def __str__(self) -> str:
        return f"copy {short(self.chunk)}{_into(self)}"


@dataclass(frozen=True)
class Compute:
    """Work that takes a time and changes what a rank holds: "forward 2" makes "activation 2".

    What it `frees` is gone when the step ends.
    """

    label: str
    seconds: float = 0.0
    reads: tuple[Chunk, ...] = ()
    produces: tuple[Chunk, ...] = ()
    frees: tuple[Chunk, ...] = ()
    peer = None

    def __str__(self) -> str:
        return self.label


Operation = Send | Recv | Reduce | Copy | Compute
"""`peer` is the rank at the other end of a message, None for what needs no other rank."""
Step = tuple[Operation, ...]


@dataclass(frozen=True)
class Schedule:
    """Per rank its steps, per step the operations that run at the same time.

    All operations of a step read before any of them writes. A step ends when all its operations have
    ended, and a message passes when both its ranks have come to the steps that name it (rendezvous). The
    n-th send from a rank to another meets that one's n-th receive from it.

    The tensor is cut into `chunks` parts as `torch.tensor_split` cuts it, and every rank starts with all
    parts of its own tensor; with `chunks` 0 it starts with nothing. Buffers that have a name are as large
    as the whole tensor, or `sizes` times as large. Built in lesson 06.

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


def holds_up(operation: Operation) -> bool:
    """Whether the step waits for another rank."""
    return operation.peer is not None and not (isinstance(operation, Send) and not operation.wait)


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


def _into(operation: Recv | Reduce | Copy) -> str:
    return "" if operation.into is None else f" into {short(operation.into)}"


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
