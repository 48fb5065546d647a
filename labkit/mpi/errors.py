"""What can go wrong inside a torch.distributed call on this backend."""

from typing import Any

import torch.distributed as dist

from labkit import LabError


class CommunicationError(LabError, dist.DistBackendError):
    """A LabError that code written for torch catches too, as DistBackendError or RuntimeError."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.asked, self.found, self.fix)


class MismatchError(CommunicationError):
    """Ranks called different things; raised on every rank before any data moved."""


class HazardError(CommunicationError):
    """A tensor was used or changed while an operation for which nobody has waited reads or writes it."""


class TaintedError(CommunicationError):
    """The group holds an operation that was given up; `labkit.mpi.recover()` mends it."""


class DeadlineError(CommunicationError):
    """An operation did not end within the timeout of its group."""


def require_partner(verb: str, rank: int, group: str, members: int) -> None:
    """LabError unless a group of so many members has that rank."""
    if not 0 <= rank < members:
        found = f"group {group!r} has ranks 0 to {members - 1}"
        raise LabError(f"{verb} with rank {rank}", found, "use one of these")
