"""Waits for requests, made of MPI's tests: of one, of all, of any, of some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from math import inf
from sys import _getframe
from typing import Any

from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.watched import world
from labkit.mpi.watched.operation import Operation
from labkit.mpi.watched.several import Several
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.wire.waiting import wait_until

_REQUEST = MPI.Request
_NOT_YET = object()


class Tests:
    """One of MPI's tests: of one request, all of some, any, or those that have ended.

    `test` returns what it has `found`, or _NOT_YET, and lets the operations end that have.
    """

    any_of_them = False

    def __init__(self, plain: Callable[..., Any], requests: Sequence[Any], statuses: Any) -> None:
        self.plain, self.requests, self.statuses = plain, requests, statuses
        self.open = [one for one in requests if (operation := _of(one)) is not None and not operation.done]

    def test(self) -> Any:
        if world.here is not None and world.here.busy:
            world.here.move()
        waits = [one for one in self.open if one.operation.request is None and not one.operation.done]
        for one in waits:
            if one.operation.error is not None:
                one.operation.finish()
                raise one.operation.error
        try:
            found = self.found(bool(waits))
        except MPI.Exception as error:
            for one in self.open:
                if not one.operation.done and not _REQUEST.__bool__(one):
                    one.operation.error = error
                    one.operation.finish()
            raise
        if found is not _NOT_YET:
            for one, status in self.ended(found):
                end(one, status)
        return found

    def wait(self) -> Any:
        for one in self.open:
            remember(one.operation)
            if one.operation.start is not None:
                record.wait(one.operation)
        found = self.test()
        if found is _NOT_YET:
            operations = [one.operation for one in self.open] or [_unknown()]
            several = Several(operations, self.any_of_them) if len(operations) > 1 else None

            def poll() -> bool:
                nonlocal found
                found = self.test()
                if several is not None:
                    several.look()
                return found is not _NOT_YET

            wait_until(poll, inf, several or operations[0])
        return found

    def found(self, waits: bool) -> Any:
        """What MPI says, where some wait for their turn or none."""
        raise NotImplementedError

    def ended(self, found: Any) -> Iterable[tuple[Any, MPI.Status | None]]:
        """Which requests have, and with which status."""
        raise NotImplementedError


class One(Tests):
    """Of one request."""

    def __init__(self, plain: Callable[..., Any], request: Any, status: MPI.Status | None) -> None:
        super().__init__(plain, (request,), status_of(request) if status is None else status)

    def found(self, waits: bool) -> Any:
        if waits:
            return _NOT_YET
        found = self.plain(self.requests[0], self.statuses)
        return found if (found if found is True or found is False else found[0]) else _NOT_YET

    def ended(self, found: Any) -> Iterable[tuple[Any, MPI.Status | None]]:
        return ((self.requests[0], self.statuses),)


class All(Tests):
    """Of all of them at once."""

    def __init__(self, plain: Callable[..., Any], requests: Sequence[Any], statuses: Any) -> None:
        if statuses is None and any(status_of(one) is not None for one in requests):
            statuses = [MPI.Status() for _ in requests]
        super().__init__(plain, requests, statuses)

    def found(self, waits: bool) -> Any:
        if waits:
            return _NOT_YET
        found = self.plain(self.requests, self.statuses)
        return found if (found if found is True or found is False else found[0]) else _NOT_YET

    def ended(self, found: Any) -> Iterable[tuple[Any, MPI.Status | None]]:
        return zip(self.requests, repeat(None) if self.statuses is None else self.statuses, strict=False)


class Any_(Tests):
    """Of any: the first that has ended."""

    any_of_them = True

    def __init__(self, plain: Callable[..., Any], requests: Sequence[Any], status: Any) -> None:
        super().__init__(plain, requests, MPI.Status() if status is None else status)

    def found(self, waits: bool) -> Any:
        found = self.plain(self.requests, self.statuses)
        return _NOT_YET if not found[1] or (waits and found[0] == MPI.UNDEFINED) else found

    def ended(self, found: Any) -> Iterable[tuple[Any, MPI.Status | None]]:
        return () if found[0] == MPI.UNDEFINED else ((self.requests[found[0]], self.statuses),)


class Some(Tests):
    """Of some: those that have ended."""

    any_of_them = True

    def __init__(self, plain: Callable[..., Any], requests: Sequence[Any], statuses: Any) -> None:
        super().__init__(plain, requests, [MPI.Status() for _ in requests] if statuses is None else statuses)

    def found(self, waits: bool) -> Any:
        found = self.plain(self.requests, self.statuses)
        which = found[0] if isinstance(found, tuple) else found
        return _NOT_YET if which == [] or (waits and which is None) else found

    def ended(self, found: Any) -> Iterable[tuple[Any, MPI.Status | None]]:
        which = found[0] if isinstance(found, tuple) else found
        return zip([self.requests[place] for place in which or ()], self.statuses, strict=False)


def found_or(found: Any, otherwise: Any) -> Any:
    return otherwise if found is _NOT_YET else found


def _of(request: Any) -> Any:
    """What a request is for; None for one that is not watched."""
    return getattr(request, "operation", None)


def status_of(request: Any) -> MPI.Status | None:
    """Where it shall be told who has sent a message, if that is to be known."""
    return getattr(_of(request), "status", None)


def end(request: Any, status: MPI.Status | None) -> None:
    operation = _of(request)
    if operation is None or operation.done:
        return
    if status is not None and hasattr(operation, "status"):
        operation.status = status
    if operation.cancelled:
        operation.error = RuntimeError("it was cancelled")
    operation.finish()


def _unknown() -> Operation:
    """A request of something that is not watched."""
    return Operation(next(iter(world.here.comms.values())), "Wait", _getframe(3))
