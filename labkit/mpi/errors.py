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
