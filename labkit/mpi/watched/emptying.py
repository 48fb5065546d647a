"""Watched communicators emptied of all that is under way in them, on all ranks together.

Receives are cancelled, messages that nobody received are received into memory that nobody reads, and
agreements are ended.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from labkit.mpi.errors import CommunicationError
from labkit.mpi.watched.collective import Collective
from labkit.mpi.watched.communicators import Comm
from labkit.mpi.watched.letters import Letter, Receive, Send
from labkit.mpi.watched.world import Watched
from labkit.mpi.wire.meet import Meeting, share
from labkit.mpi.wire.runtime import MPI

_LONGEST = 5.0  # seconds for what all ranks have called: large messages
_STUCK = 0.5  # seconds for a collective that was not moving any more

Way: TypeAlias = tuple[str, int, int, int]
"""Of messages: communicator, source and target in it, tag."""


def emptied(here: Watched, stuck: bool) -> Meeting[list[Letter]]:
    """End all that is under way; the sends of this rank that nobody has received.

    CommunicationError where that cannot be done: MPI has begun a collective that does not end.
    """
    begun = yield from share(
        here.control,
        {key: (comm.agreements.begun, comm.agreements.in_words) for key, comm in _with_others(here).items()},
    )
    emptying = _Emptying(here, begun, stuck)
    yield emptying
    if not all((yield from share(here.control, emptying.done))):
        raise CommunicationError(
            "what a cell has left on mpi4py's communicators", "it cannot be taken back", "restart the ranks"
        )
    found = yield from share(here.control, emptying.found)
    lost: list[Letter] = []
    for key, comm in here.comms.items():
        for of_rank in found:
            for (its_key, source, target, tag), count in of_rank.items():
                if its_key == key and source == comm.me:
                    to_it = [kept for kept in comm.sent if kept[:2] == (target, tag)]
                    lost += [Send.of(comm, kept) for kept in to_it[-count:]]
    return lost


def _with_others(here: Watched) -> dict[str, Comm]:
    return {key: comm for key, comm in here.comms.items() if comm.agreements is not None}


class _Emptying:
    """Ranks stay until all are done: each may hold a message that another waits to see received."""

    def __init__(self, here: Watched, begun: Sequence[dict[str, tuple[int, bool]]], stuck: bool) -> None:
        self.here, self.done = here, False
        self.found: dict[Way, int] = defaultdict(int)
        self.barrier: MPI.Request | None = None
        self.asked: list[MPI.Request] = []
        for one in list(here.flying):
            if isinstance(one, Receive) and one.request is not None and not one.done:
                one.give_up()
            elif isinstance(one, Receive) or one.request is None:
                one.finish()
        hopeless = stuck and any(isinstance(one, Collective) for one in here.flying)
        self.deadline = time.monotonic() + (_STUCK if hopeless else _LONGEST)
        here.busy.clear()
        for key, comm in _with_others(here).items():
            comm.queue.clear()
            agreements = comm.agreements
            last, in_words = max(of_rank.get(key, (0, False)) for of_rank in begun)
            if agreements.begun < last:
                agreements.start(in_words)
            if agreements.under_way is not None:
                self.asked.append(agreements.under_way)

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        """Whether it is over on all ranks: `done` here, or it takes too long."""
        for key, comm in self.here.comms.items():
            for source, tag in _drained(comm):
                self.found[key, source, comm.me, tag] += 1
            if comm.agreements is not None:
                list(_drained(comm.agreements.comm))
        self.here.ended()
        if self.barrier is None:
            self.done = all([request.Test() for request in self.asked]) and not self.here.flying
            if self.done or time.monotonic() > self.deadline:  # all meet, whatever has become of it
                self.barrier = self.here.control.Ibarrier()
        return self.barrier is not None and self.barrier.Test()


def _drained(comm: MPI.Intracomm) -> Iterator[tuple[int, int]]:
    """Receive every message that has arrived: (source, tag) of each."""
    plain = MPI.Intracomm(comm)
    while (message := plain.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status := MPI.Status())) is not None:
        message.Recv([bytearray(status.Get_count(MPI.BYTE)), MPI.BYTE])
        yield status.source, status.tag
