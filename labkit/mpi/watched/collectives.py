"""The collectives of a communicator: MPI's blocking calls, made of those that do not block."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any

from labkit.mpi.record import record
from labkit.mpi.watched import objects
from labkit.mpi.watched.collective import Collective
from labkit.mpi.watched.operation import SPINS
from labkit.mpi.watched.requests import Request
from labkit.mpi.watched.signatures import BUFFERS, PICKLED, REQUIRED
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm

_TEST = MPI.Request.Test
_OPERATORS = (
    "MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "MAXLOC", "MINLOC", "REPLACE",
    "NO_OP",
)  # fmt: skip
_operators = {getattr(MPI, name).handle: name for name in _OPERATORS}


def _buffers(name: str, blocking: bool) -> Callable[..., Any]:
    """The method of that name, or the one that does not block."""
    about = BUFFERS[name]
    verb = name if blocking else "I" + name.lower()
    plain, start = getattr(MPI.Intracomm, verb), getattr(MPI.Intracomm, "I" + name.lower())
    names, defaults, content = tuple(about.parameters), about.parameters, about.content

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = None
        if blocking and not self.asks and record.records is None:
            # Most have ended by now: nothing is made for those that anybody could ask.
            request = start(self, *args, **kwargs)
            for _ in SPINS:
                if _TEST(request):
                    self.passed(verb, _getframe(1))
                    return None
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if _wrong(args, given, names):
            return plain(self, *args, **kwargs)  # which says what is wrong
        root = _root(self, given)
        if blocking and self.asks and record.records is None and not self.queue:
            key = name, root if root is None else self.ranks[root], _operator(given), content(self, given)
            if self.agreements.at_once(key):
                request = start(self, *args, **kwargs)
                for _ in SPINS:
                    if _TEST(request):
                        self.passed(verb, _getframe(1))
                        return None
        contained = content(self, given) if self.asks or record.records is not None else None
        one = Collective(self, verb, lambda: start(self, *args, **kwargs), _getframe(1))
        if root is not None:
            one.root = self.ranks[root]
        one.op, one.content = _operator(given), contained
        if blocking:
            if request is not None:
                one.request = request
            else:
                self.enter(one)
            one.wait()
            return None
        one.user = request = Request.of(one, None)
        self.enter(one)
        return request

    call.__name__, call.__doc__ = verb, plain.__doc__
    return call


def _operator(given: dict[str, Any]) -> str | None:
    if "op" not in given:
        return None
    return _operators.get(getattr(given["op"], "handle", None), "an operator of its own")


def _wrong(args: tuple[Any, ...], given: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Whether a call lacks an argument, or has one too many."""
    return max(len(args), len(given)) > len(names) or any(value is REQUIRED for value in given.values())


def _root(comm: Comm, given: dict[str, Any]) -> int | None:
    root = given.get("root")
    if root is not None and not 0 <= root < comm.members:
        raise MPI.Exception(MPI.ERR_ROOT)
    return root


def _pickled(name: str, parameters: dict[str, Any]) -> Callable[..., Any]:
    plan, plain = getattr(objects, name), getattr(MPI.Intracomm, name)
    names = tuple(parameters)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.members == 1 and record.records is None:  # nobody to wait for
            self.count(name)
            return plain(self, *args, **kwargs)
        given = {**parameters, **dict(zip(names, args, strict=False)), **kwargs}
        if _wrong(args, given, names):
            return plain(self, *args, **kwargs)
        root = _root(self, given)
        prepared = plan(self, *given.values())
        next(prepared)
        one = Collective(self, name, None, _getframe(1))
        one.plan = prepared
        if root is not None:
            one.root = self.ranks[root]
        one.op = _operator(given)
        self.enter(one)
        one.wait()
        return one.value

    call.__name__, call.__doc__ = name, plain.__doc__
    return call


class Collectives(MPI.Intracomm):
    """The collectives of a communicator."""


for _name in BUFFERS:
    setattr(Collectives, _name, _buffers(_name, blocking=True))
    setattr(Collectives, "I" + _name.lower(), _buffers(_name, blocking=False))
for _name, _parameters in PICKLED.items():
    setattr(Collectives, _name, _pickled(_name, _parameters))
setattr(Collectives, "barrier", Collectives.Barrier)  # noqa: B010
