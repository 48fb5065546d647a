"""What all watched communicators of this process share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from labkit.mpi.wire.meet import duplicate, finished
from labkit.mpi.wire.runtime import WORLD

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm
    from labkit.mpi.watched.operation import Operation


class Watched:
    """`flying` holds what was begun and has not ended, `failed` what has with an error that nobody has seen,
    `busy` the communicators whose calls wait for others'.

    `balance` adds a number for each message that was sent and takes it away for each received one: over all
    ranks the sum is 0 where every message was received, as what it was sent.
    """

    def __init__(self, checked: bool, before_abort: Callable[[int, int], None]) -> None:
        self.control = finished(duplicate(WORLD))
        self.rank, self.size, self.checked = WORLD.rank, WORLD.size, checked
        self.before_abort = before_abort
        self.comms: dict[str, Comm] = {}
        self.flying: dict[Operation, None] = {}
        self.failed: list[Operation] = []
        self.busy: dict[str, Comm] = {}
        self.balance = 0

    def move(self) -> None:
        """Let the calls go on that have waited for their turn, on all communicators."""
        for comm in list(self.busy.values()):
            comm.pump()

    def pending(self) -> bool:
        """Whether anything is under way, or has failed unseen. What has ended can still be waited for."""
        self.move()
        return not all([operation.is_over() for operation in list(self.flying)]) or bool(self.failed)

    def ended(self) -> bool:
        """Move all on, and let go of what has ended: whether all has, and well."""
        self.move()
        return all([operation.ended() for operation in list(self.flying)])


here: Watched | None = None
"""Where mpi4py is watched, once it is."""
