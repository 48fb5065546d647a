"""A communicator that does not go to MPI: what its rank calls is played by somebody else (`%%px --orders`).

It has of MPI's calls those that `labkit.mpi.wire.steps` names. Who plays says when each is over, and has what
the others gave; sums are made here, always in the order of the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from labkit.mpi.errors import MismatchError
from labkit.mpi.wire.buffers import Buffer
from labkit.mpi.wire.runtime import MPI

Given: TypeAlias = dict[int, bytes]
"""What came of a call that is over: by world rank, what each gave."""

_OPS = "SUM", "PROD", "MIN", "MAX", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR"


@dataclass(frozen=True)
class Operation:
    """A message, which one of `peers` may meet; or a collective of them all, from or to `root` if it has one.

    All its ranks must have the `same`. Ranks are world ranks.
    """

    verb: str
    peers: tuple[int, ...]
    group: str
    tag: int = 0
    root: int | None = None
    same: str = ""


class Player(Protocol):
    """Whoever decides what meets what."""

    def call(self, operation: Operation, given: Callable[[], bytes]) -> int:
        """A call is made; `given` reads what this rank gives to it. Returns its number."""
        ...

    def wait(self, number: int) -> Given:
        """Until it is over."""
        ...

    def look(self, number: int) -> Given | None:
        """Right after the call: what came, if that is to be there as early as it can."""
        ...


class PlayedRequest:
    """In place of MPI's. `take` writes what came where the caller wants it; `tell` says whose it was."""

    def __init__(
        self,
        player: Player,
        number: int,
        take: Callable[[Given], object] = lambda given: None,
        tell: Callable[[Given, MPI.Status], object] = lambda given, status: None,
    ) -> None:
        self._player, self._number, self._take, self._tell = player, number, take, tell
        self._early = player.look(number)
        if self._early is not None:
            take(self._early)

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        """True, after a wait until it is."""
        given = self._player.wait(self._number)
        if self._early is None:
            self._take(given)
        if status is not None:
            self._tell(given, status)
        return True


class PlayedComm:
    """In place of MPI's intracommunicator over `ranks`, world ranks, of which this one is `me`."""

    def __init__(self, player: Player, key: str, ranks: Sequence[int], me: int) -> None:
        self._player, self._key, self._ranks = player, key, tuple(ranks)
        self.rank, self.size = self._ranks.index(me), len(ranks)

    def Free(self) -> None:
        """There is nothing to free."""

    def Isend(self, buffer: Buffer, rank: int, tag: int) -> PlayedRequest:
        to = (self._ranks[rank],)
        number = self._player.call(Operation("send", to, self._key, tag), lambda: _bytes(buffer))
        return PlayedRequest(self._player, number)

    def Irecv(self, buffer: Buffer, rank: int, tag: int) -> PlayedRequest:
        others = (r for r in self._ranks if r != self._ranks[self.rank])
        source = tuple(others) if rank == MPI.ANY_SOURCE else (self._ranks[rank],)

        def take(given: Given) -> None:
            (message,) = given.values()
            fits = message[: buffer[0].nbytes]
            buffer[0][: len(fits)] = fits

        def tell(given: Given, status: MPI.Status) -> None:
            ((sender, message),) = given.items()
            status.Set_source(self._ranks.index(sender))
            status.Set_elements(MPI.BYTE, len(message))

        number = self._player.call(Operation("recv", source, self._key, tag), bytes)
        return PlayedRequest(self._player, number, take, tell)

    def Ibarrier(self) -> PlayedRequest:
        return self._together("barrier", None, lambda given: None)

    def Ibcast(self, buffer: Buffer, root: int) -> PlayedRequest:
        mine = buffer if self.rank == root else None
        return self._together(
            "broadcast", mine, lambda given: _fill(buffer, given[root]), root, f"{buffer[0].nbytes} bytes"
        )

    def Iallreduce(self, place: object, buffer: Buffer, op: MPI.Op) -> PlayedRequest:
        return self._together(
            "all_reduce",
            buffer,
            lambda given: _fill(buffer, _sum(buffer, op, given)),
            None,
            _kind(buffer, op),
        )

    def Ireduce(self, source: Buffer | Any, target: Buffer | None, op: MPI.Op, root: int) -> PlayedRequest:
        mine = source if target is None else target

        def take(given: Given) -> None:
            if self.rank == root:
                _fill(mine, _sum(mine, op, given))

        return self._together("reduce", mine, take, root, _kind(mine, op))

    def Iallgather(self, source: Buffer | Any, target: Buffer) -> PlayedRequest:
        size = target[0].nbytes // self.size
        here = slice(self.rank * size, (self.rank + 1) * size)
        mine = [target[0][here]] if isinstance(source, MPI.InPlaceType) else source
        return self._together(
            "all_gather", mine, lambda given: _fill(target, b"".join(given.values())), None, f"{size} bytes"
        )

    def Iallgatherv(self, source: Buffer, target: Buffer) -> PlayedRequest:
        return self._together(
            "all_gather",
            source,
            lambda given: _fill(target, b"".join(given.values())),
            None,
            str(target[1][0]),
        )

    def Igather(self, source: Buffer, target: Buffer | None, root: int) -> PlayedRequest:
        def take(given: Given) -> None:
            if target is not None:
                _fill(target, b"".join(given.values()))

        return self._together("gather", source, take, root, f"{source[0].nbytes} bytes")

    def Iscatter(self, source: Buffer | None, target: Buffer, root: int) -> PlayedRequest:
        size = target[0].nbytes

        def take(given: Given) -> None:
            _fill(target, given[root][self.rank * size : (self.rank + 1) * size])

        return self._together("scatter", source, take, root, f"{size} bytes")

    def Ireduce_scatter_block(self, source: Buffer, target: Buffer, op: MPI.Op) -> PlayedRequest:
        size = target[0].nbytes

        def take(given: Given) -> None:
            parts = {r: all_[self.rank * size : (self.rank + 1) * size] for r, all_ in given.items()}
            _fill(target, _sum(target, op, parts))

        return self._together("reduce_scatter", source, take, None, _kind(target, op))

    def Ialltoall(self, source: Buffer, target: Buffer) -> PlayedRequest:
        size = source[0].nbytes // self.size
        return self.Ialltoallv([source[0], ([size] * self.size, None), MPI.BYTE], target)

    def Ialltoallv(self, source: Buffer, target: Buffer) -> PlayedRequest:
        give = source[1][0]

        def take(given: Given) -> None:
            blocks = []
            for message in given.values():
                sizes = [int(n) for n in message[-8 * self.size :].split()]  # what it has for each rank
                start = sum(sizes[: self.rank])
                blocks.append(message[start : start + sizes[self.rank]])
            _fill(target, b"".join(blocks))

        tail = "".join(f"{n:<8}" for n in give).encode()
        return self._together("all_to_all", source, take, tail=tail)

    def _together(
        self,
        verb: str,
        mine: Buffer | None,
        take: Callable[[Given], object],
        root: int | None = None,
        same: str = "",
        tail: bytes = b"",
    ) -> PlayedRequest:
        """A collective: `take` gets what each rank of the group gave, by its rank there."""

        def given() -> bytes:
            return b"" if mine is None else _bytes(mine) + tail

        def in_order(given: Given) -> None:
            take({number: given.get(rank, b"") for number, rank in enumerate(self._ranks)})

        top = None if root is None else self._ranks[root]
        number = self._player.call(Operation(verb, self._ranks, self._key, root=top, same=same), given)
        return PlayedRequest(self._player, number, in_order)


def _bytes(buffer: Buffer) -> bytes:
    return bytes(buffer[0])


def _kind(buffer: Buffer, op: MPI.Op) -> str:
    name = next(name for name in _OPS if getattr(MPI, name) == op)
    return f"{buffer[1]} x {buffer[2].Get_name().removeprefix('MPI_').lower()}, {name}"


def _fill(buffer: Buffer, data: bytes | bytearray) -> None:
    if len(data) != buffer[0].nbytes:
        raise MismatchError(
            "a collective", f"{len(data)} bytes came, {buffer[0].nbytes} fit", "give tensors of one size"
        )
    buffer[0][: len(data)] = data


def _sum(buffer: Buffer, op: MPI.Op, given: Given) -> bytearray:
    first, *others = given.values()
    total = bytearray(first)
    for other in others:
        op.Reduce_local([bytearray(other), *buffer[1:]], [total, *buffer[1:]])
    return total
