"""What a plan is made of: steps to post, arithmetic to run, and pauses.

A plan is an iterator of parts. It only says what comes next; its Work does it (`follow`), and asks for more
when there is room. So a plan can go by what earlier parts brought, and makes memory when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.progress import UnderWay

Mold: TypeAlias = tuple[str, Any, Any, str | None, int | None]
"""What scratch memory for a collective needs: verb, elements (uneven ones by rank), dtype, op, root."""


class Request(Protocol):
    """What MPI gives for a call under way, or what stands in its place."""

    def Test(self, status: MPI.Status | None = None, /) -> bool: ...


class Step:
    """One non-blocking call: `verb(*args)` on a communicator.

    `keep` is kept for as long as the request, and `finish` runs after it, in the poll that finds it done. A
    verb that is a function takes the communicator's place, and its result the request's. `work` is whose step
    it is: a Work that nobody keeps can still be found by what it has in flight.
    """

    __slots__ = ("verb", "args", "mold", "keep", "finish", "number", "done", "work")

    def __init__(
        self,
        verb: str | Callable[..., Request],
        args: tuple[Any, ...],
        mold: Mold | None = None,
        keep: object = None,
        finish: Callable[[], object] | None = None,
    ) -> None:
        self.verb, self.args, self.mold, self.keep, self.finish = verb, args, mold, keep, finish
        self.number: int | None = None
        self.done = False
        self.work: UnderWay | None = None


class Local:
    """What this process does by itself, mostly arithmetic: `function(*args)`."""

    __slots__ = ("function", "args")

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self.function, self.args = function, args

    def run(self) -> None:
        self.function(*self.args)


class Pause:
    """The plan goes on only when all steps before are done."""


PAUSE = Pause()

Part: TypeAlias = Step | Local | Pause
Plan: TypeAlias = Iterator[Part]
