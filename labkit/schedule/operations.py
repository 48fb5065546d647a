"""What a rank can do in a step of a schedule: send, receive, add, copy, compute."""

from __future__ import annotations

from dataclasses import dataclass

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


def holds_up(operation: Operation) -> bool:
    """Whether the step waits for another rank."""
    return operation.peer is not None and not (isinstance(operation, Send) and not operation.wait)


def _into(operation: Recv | Reduce | Copy) -> str:
    return "" if operation.into is None else f" into {short(operation.into)}"
