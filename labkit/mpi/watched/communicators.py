"""Watched communicators, and those that are made of them."""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from sys import _getframe
from types import FrameType
from typing import Any, NoReturn

from labkit.mpi.record.history import remember
from labkit.mpi.watched.agreement import Agreements
from labkit.mpi.watched.collective import Collective
from labkit.mpi.watched.collectives import Collectives
from labkit.mpi.watched.letters import Kept, Letter, Receive
from labkit.mpi.watched.messages import Messages
from labkit.mpi.watched.turns import Turns
from labkit.mpi.watched.world import Watched
from labkit.mpi.wire.runtime import MPI, WORLD

_KEPT = 1000  # messages that are remembered of each communicator
_GATE = 1  # the tag of who makes a communicator of some ranks
_ENDED_WITHIN = 5.0  # seconds that mpiexec may take to end a rank that has called Abort


class Comm(Messages, Collectives, Turns):
    """What stands in the place of an MPI.Intracomm of mpi4py's.

    `key` is its name, alike on its ranks. `ranks` are its members as world ranks. `called` is how many
    collectives this rank has called, and `verbs` a checksum of which. `sent` and `taken` are the last
    messages, as they were posted.
    """

    world: Watched
    key: str
    ranks: Sequence[int]

    def adopt(self, world: Watched, key: str) -> Comm:
        """Begin to watch a communicator that all its ranks have just got."""
        self.world, self.key, self.me, self.members = world, key, self.rank, self.size
        self.number = zlib.crc32(key.encode())
        mine = self.Get_group()
        self.ranks = tuple(mine.Translate_ranks(None, WORLD.Get_group()))
        mine.Free()
        self.agreements = Agreements(_PLAIN.Dup(_plain(self))) if self.members > 1 else None
        self.asks = world.checked and self.agreements is not None
        self.called = self.verbs = 0
        self.made: dict[str, int] = {}
        self.queue: deque[Collective] = deque()
        self.sent: deque[Kept] = deque(maxlen=_KEPT)
        self.taken: deque[Receive | Kept] = deque(maxlen=_KEPT)
        world.comms[key] = self
        return self

    def partners(self, peer: int) -> Sequence[int]:
        """World ranks of one partner, or of all who can be it."""
        if 0 <= peer < self.members:
            return (self.ranks[peer],)
        return tuple(rank for rank in self.ranks if rank != self.world.rank)

    def count(self, verb: str) -> int:
        """A collective is called: its number."""
        self.called += 1
        self.verbs = zlib.crc32(verb.encode(), self.verbs)
        return self.called

    def passed(self, verb: str, frame: FrameType) -> None:
        """A collective was over at once."""
        self.count(verb)
        remember((self, verb, None, self.called, frame.f_code, frame.f_lasti))

    def posted(self, send: Letter) -> None:
        """A send was."""
        if send.peer >= 0:
            self.world.balance += send.weight(self.me, send.peer)
            self.sent.append((send.peer, send.tag, send.kind, *send.here))

    # Communicators made of this one

    def _make(self: Any, verb: str, make: Callable[[], Any]) -> Any:
        """A collective that makes one: MPI's own call blocks, so it comes when all ranks are there."""
        call = Collective(self, verb, make, _getframe(2))
        if self.agreements is None:
            call.post()
        else:
            self.wait_for_turn(call)
        call.wait()
        return self._watched(call.value, verb)

    def _watched(self: Any, plain: Any, verb: str) -> Any:
        """The same, watched."""
        made = self.made[verb] = self.made.get(verb, 0) + 1
        if plain == MPI.COMM_NULL or not isinstance(plain, MPI.Intracomm):
            return plain
        comm = _KINDS.get(plain.topology, Comm)(plain)
        members = plain.Get_group()
        ranks = tuple(members.Translate_ranks(None, WORLD.Get_group()))
        members.Free()
        of = "" if len(ranks) == len(self.ranks) else f" of ranks {', '.join(map(str, ranks))}"
        return comm.adopt(self.world, f"{self.key}, {verb} {made}{of}")

    def Dup(self, info: Any = None) -> Any:
        return self._make("Dup", lambda: _PLAIN.Dup(_plain(self), *_or_none(info)))

    Clone = Dup_with_info = Dup

    def Split(self, color: int = 0, key: int = 0) -> Any:
        return self._make("Split", lambda: _PLAIN.Split(_plain(self), color, key))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        return self._make(
            "Split_type", lambda: _PLAIN.Split_type(_plain(self), split_type, key, *_or_none(info))
        )

    def Create(self, group: MPI.Group) -> Any:
        return self._make("Create", lambda: _PLAIN.Create(_plain(self), group))

    def Create_cart(self, dims: Any, periods: Any = None, reorder: bool = False) -> Any:
        return self._make("Create_cart", lambda: _PLAIN.Create_cart(_plain(self), dims, periods, reorder))

    def Create_graph(self, index: Any, edges: Any, reorder: bool = False) -> Any:
        return self._make("Create_graph", lambda: _PLAIN.Create_graph(_plain(self), index, edges, reorder))

    def Create_group(self: Any, group: MPI.Group, tag: int = 0) -> Any:
        """Only the members of the group call this."""
        ranks = group.Translate_ranks(None, self.Get_group())
        if self.agreements is None or self.me not in ranks:
            return self._watched(_PLAIN.Create_group(_plain(self), group, tag), f"Create_group {tag}")
        call = Collective(self, "Create_group", None, _getframe(1), counts=False)
        call.plan = self._gate(ranks)
        call.post()
        call.wait()
        return self._watched(_PLAIN.Create_group(_plain(self), group, tag), f"Create_group {tag} {ranks}")

    def _gate(self: Any, ranks: Sequence[int]) -> Any:
        """A plan: over when all these have come."""
        side, leader, *others = self.agreements.comm, *ranks
        if self.me == leader:
            for rank in others:
                yield side.Irecv(bytearray(1), rank, _GATE)
            for rank in others:
                yield side.Isend(b"1", rank, _GATE)
        else:
            yield side.Isend(b"1", leader, _GATE)
            yield side.Irecv(bytearray(1), leader, _GATE)

    # The same as without a watch

    def Idup(self, info: Any = None) -> Any:
        return _PLAIN.Idup(_plain(self), *_or_none(info))

    Idup_with_info = Idup

    def Free(self) -> None:
        agreements, key = self.agreements, self.key
        super().Free()
        self.world.comms.pop(key, None)
        if agreements is not None:
            agreements.free()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        self.world.before_abort(self.world.rank, errorcode)
        super().Abort(errorcode)
        # MPICH asks mpiexec to end all, and returns; whatever runs until then would be taken for done.
        time.sleep(_ENDED_WITHIN)
        os._exit(errorcode & 0xFF or 1)

    def Disconnect(self) -> None:
        self.Free()

    free = Free

    def __reduce__(self) -> Any:
        for name in ("COMM_WORLD", "COMM_SELF"):
            if self is getattr(MPI, name):
                return _of_mpi4py, (name,)
        return _PLAIN.__reduce__(_plain(self))


_PLAIN = MPI.Intracomm


def _of_mpi4py(name: str) -> Any:
    """What its module has under that name, in the process that unpickles it."""
    return getattr(MPI, name)


def _plain(comm: Any) -> MPI.Intracomm:
    """The same, not watched."""
    return _PLAIN(comm)


def _or_none(info: Any) -> tuple[Any, ...]:
    return () if info is None else (info,)


class Cart(Comm, MPI.Cartcomm):
    """The same of a grid."""

    def Sub(self, remain_dims: Any) -> Any:
        return self._make("Sub", lambda: MPI.Cartcomm.Sub(MPI.Cartcomm(self), remain_dims))

    def Dup(self, info: Any = None) -> Any:
        return self._make("Dup", lambda: MPI.Cartcomm.Dup(MPI.Cartcomm(self), *_or_none(info)))


class Graph(Comm, MPI.Graphcomm):
    """The same of a graph."""


_KINDS: dict[int, type[Comm]] = {MPI.CART: Cart, MPI.GRAPH: Graph}
