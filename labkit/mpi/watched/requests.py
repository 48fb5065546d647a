"""Requests of watched communicators: their waits can be seen and interrupted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from labkit.mpi.record import record
from labkit.mpi.record.history import remember
from labkit.mpi.watched.operation import SPINS, Operation
from labkit.mpi.watched.waits import All, Any_, One, Some, end, found_or, status_of
from labkit.mpi.wire.runtime import MPI

_R, _PERSISTENT = MPI.Request, MPI.Prequest


class Kind(type):
    """mpi4py's own objects, such as MPI.REQUEST_NULL, are of these classes as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        plain = next(base for base in cls.__mro__ if base.__module__ == "mpi4py.MPI")
        return isinstance(instance, plain)


class Waits(MPI.Request, metaclass=Kind):
    """The waits for requests, made of tests. `operation` is what a request is for, if that is watched."""

    operation: Any = None

    def __bool__(self) -> bool:
        operation = self.operation
        turn_to_come = operation is not None and operation.request is None and not operation.done
        return turn_to_come or super().__bool__()

    def Test(self, status: MPI.Status | None = None) -> bool:
        return found_or(One(_R.Test, self, status).test(), False)

    def test(self, status: MPI.Status | None = None) -> Any:
        return found_or(One(_R.test, self, status).test(), (False, None))

    def Wait(self, status: MPI.Status | None = None) -> Any:
        operation = self.operation
        if operation is not None and operation.request is self and operation.start is None:
            remember(operation)
            told = status_of(self) if status is None else status
            for _ in SPINS:
                if _R.Test(self, told):
                    end(self, told)
                    return True
        return One(_R.Test, self, status).wait()

    def wait(self, status: MPI.Status | None = None) -> Any:
        return One(_R.test, self, status).wait()[1]

    @classmethod
    def Testall(cls, requests: Sequence[Any], statuses: Any = None) -> bool:
        return found_or(All(_R.Testall, requests, statuses).test(), False)

    @classmethod
    def testall(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return found_or(All(_R.testall, requests, statuses).test(), (False, None))

    @classmethod
    def Waitall(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return All(_R.Testall, requests, statuses).wait()

    @classmethod
    def waitall(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return All(_R.testall, requests, statuses).wait()[1]

    @classmethod
    def Testany(cls, requests: Sequence[Any], status: MPI.Status | None = None) -> Any:
        return found_or(Any_(_R.Testany, requests, status).test(), (MPI.UNDEFINED, False))

    @classmethod
    def testany(cls, requests: Sequence[Any], status: MPI.Status | None = None) -> Any:
        return found_or(Any_(_R.testany, requests, status).test(), (MPI.UNDEFINED, False, None))

    @classmethod
    def Waitany(cls, requests: Sequence[Any], status: MPI.Status | None = None) -> int:
        return Any_(_R.Testany, requests, status).wait()[0]

    @classmethod
    def waitany(cls, requests: Sequence[Any], status: MPI.Status | None = None) -> Any:
        index, _, value = Any_(_R.testany, requests, status).wait()
        return index, value

    @classmethod
    def Testsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return found_or(Some(_R.Testsome, requests, statuses).test(), [])

    @classmethod
    def testsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return found_or(Some(_R.testsome, requests, statuses).test(), ([], []))

    @classmethod
    def Waitsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return Some(_R.Testsome, requests, statuses).wait()

    @classmethod
    def waitsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        return Some(_R.testsome, requests, statuses).wait()

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
        return cls(_R.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        return cls(_R.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> Any:
        return cls(_R.f2py(arg))

    def Cancel(self) -> None:
        super().Cancel()
        if self.operation is not None:
            self.operation.cancelled = True


class Request(Waits):
    """The request of one call."""

    plain: MPI.Request | None = None

    @classmethod
    def of(cls, operation: Operation, plain: MPI.Request | None) -> Request:
        """For a call that begins: its turn may come later."""
        request = cls() if plain is None else cls(plain)
        request.operation, operation.nonblocking = operation, True
        if plain is not None:
            operation.request = request
        if operation.start is not None:
            operation.posted = record.clock()
        operation.comm.world.flying[operation] = None
        return request

    def become(self, plain: MPI.Request) -> None:
        """Its turn has come: what MPI gave for it."""
        self.plain = plain  # which keeps the buffers
        ctypes.memmove(MPI._addressof(self), MPI._addressof(plain), MPI._sizeof(MPI.Request))


class Prequest(Waits, MPI.Prequest):
    """A request that is begun again and again; `again` makes the operation of each time."""

    again: Callable[[], Any] | None = None
    buffer: Any = None

    @classmethod
    def of(cls, plain: MPI.Prequest, again: Callable[[], Any], buffer: Any) -> Prequest:
        request = cls(plain)
        request.again, request.buffer = again, buffer
        return request

    def begun(self) -> None:
        if self.again is None:
            return
        self.operation = operation = self.again()
        operation.buffer, operation.request = self.buffer, self
        if operation.start is not None:
            operation.posted = record.clock()
        operation.begun()

    def Start(self) -> None:
        super().Start()
        self.begun()

    @classmethod
    def Startall(cls, requests: Sequence[Any]) -> None:
        _PERSISTENT.Startall(list(requests))
        for request in requests:
            if type(request) is Prequest:
                request.begun()
