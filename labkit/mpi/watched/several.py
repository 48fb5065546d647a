"""What a wait for several requests waits for, as those see it who ask."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.mpi.watched.letters import has_ended
from labkit.mpi.watched.operation import Operation

_LOOK_EVERY = 100  # tests


class Several(Operation):
    """The first operation that has not ended, or any of them."""

    def __init__(self, operations: Sequence[Operation], any_of_them: bool) -> None:
        self.operations, self.any_of_them, self.looks, self.now = operations, any_of_them, 0, operations[0]

    def look(self) -> None:
        """Which is the first. Here, for no other thread may ask MPI while this one does."""
        self.looks += 1
        if self.looks % _LOOK_EVERY == 0:
            left = (one for one in self.operations if not one.done)
            waits = (one for one in left if one.request is None or has_ended(one.request) is False)
            self.now = next(waits, self.operations[-1])

    def first(self) -> Operation:
        return self.now

    comm = property(lambda self: self.first().comm)  # type: ignore[assignment]
    verb = property(lambda self: self.first().verb)  # type: ignore[assignment]
    tag = property(lambda self: self.first().tag)  # type: ignore[assignment]
    root = property(lambda self: self.first().root)  # type: ignore[assignment]
    sequence = property(lambda self: self.first().sequence)  # type: ignore[assignment]
    bytes = property(lambda self: max(one.bytes for one in self.operations))  # type: ignore[assignment]
    where = property(lambda self: self.first().where)  # type: ignore[assignment]

    @property
    def ranks(self) -> Sequence[int]:  # type: ignore[override]
        if not self.any_of_them:
            return self.first().ranks
        return sorted({rank for one in self.operations for rank in one.ranks})
