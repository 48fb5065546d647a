"""What a cell leaves under way on watched communicators: told, and taken out of them, on all ranks together.

Whatever all ranks have called ends by itself. The rest is told, and emptied out of the communicators, which
stay what they are.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labkit.mpi.errors import CommunicationError
from labkit.mpi.watched import contents, world
from labkit.mpi.watched.communicators import Comm
from labkit.mpi.watched.emptying import Way, emptied
from labkit.mpi.watched.letters import Letter, Receive, Send
from labkit.mpi.watched.operation import Operation
from labkit.mpi.watched.world import Watched
from labkit.mpi.wire.meet import Meeting, finished, share
from labkit.mpi.wire.runtime import MPI

_PATIENCE = 0.1  # seconds in which nothing moves
_LONGEST = 5.0  # seconds for what all ranks have called: large messages


@dataclass(frozen=True)
class Left:
    """An operation of which there is something to tell: `fate`. `waited`: it was no lack of a wait."""

    what: Operation
    fate: str
    waited: bool
    discarded: bool


@dataclass(frozen=True)
class _Message:
    """A message as it is told the other ranks."""

    kind: int
    place: str


def settle(stuck: bool) -> list[Left]:
    """Collective over all ranks: nothing is under way afterwards; this rank's part of what was.

    `stuck`: nothing was moving any more.
    """
    here = world.here
    return [] if here is None else finished(_settled(here, stuck))


def _settled(here: Watched, stuck: bool) -> Meeting[list[Left]]:
    yield from _let_end(here)
    here.ended()
    left = list(_failed(here))
    open_ = [one for one in here.flying if not one.done]
    called = yield from share(here.control, {key: comm.called for key, comm in here.comms.items()})
    fates = [(one, _fate(one, called)) for one in open_ if not one.given_up]
    lost = yield from emptied(here, stuck)
    left += [Left(one, fate, False, True) for one, fate in fates]
    told = Counter(_identity(one) for one in open_ if isinstance(one, Send))
    for one in lost:
        if told[_identity(one)] > 0:
            told[_identity(one)] -= 1
        else:
            left.append(Left(one, "nobody received it", True, True))
    left += yield from _compared(here, lost)
    for key, comm in here.comms.items():
        comm.called, comm.verbs = max(of_rank.get(key, 0) for of_rank in called), 0
        comm.sent.clear()
        comm.taken.clear()
    here.flying.clear()
    here.failed.clear()
    here.balance = 0
    return left


def _let_end(here: Watched) -> Meeting[None]:
    """Move on what is under way, for as long as anything moves anywhere."""
    deadline, before = time.monotonic() + _LONGEST, None
    while True:
        yield _Moving(here)
        now = yield from share(here.control, (len(here.flying), time.monotonic() > deadline))
        if now == before or not any(count for count, _ in now) or any(late for _, late in now):
            return
        before = now


class _Moving:
    """Polls until all has ended, or for a while."""

    def __init__(self, here: Watched) -> None:
        self.here, self.deadline = here, time.monotonic() + _PATIENCE

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        return self.here.ended() or time.monotonic() > self.deadline


def _failed(here: Watched) -> Iterator[Left]:
    """What went wrong, with an error that nobody has seen."""
    for one in here.failed:
        if not one.given_up:
            found = one.error.found if isinstance(one.error, CommunicationError) else str(one.error)
            yield Left(one, found, False, False)


def _fate(one: Operation, called: Sequence[dict[str, int]]) -> str:
    if isinstance(one, Receive):
        return "nothing was sent"
    if isinstance(one, Letter):
        return "nobody received it"
    key, number = one.comm.key, one.sequence or 0
    missing = [rank for rank in one.comm.ranks if called[rank].get(key, 0) < number]
    if missing:
        return f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} never called it"
    return "it could not end"


def _identity(one: Letter) -> tuple[object, ...]:
    return one.comm.key, one.peer, one.tag, one.here


def _taken(comm: Comm) -> Iterator[Receive]:
    """What has come, the last first."""
    for one in reversed(comm.taken):
        if isinstance(one, Receive):
            if one.done and one.error is None:
                yield one
        else:
            yield Receive.of(comm, one)


def _compared(here: Watched, lost: Sequence[Letter]) -> Meeting[list[Left]]:
    """Messages that were received as something else than they were sent as."""
    sent: dict[Way, list[_Message]] = defaultdict(list)
    for key, comm in here.comms.items():
        for one in (Send.of(comm, kept) for kept in comm.sent):
            sent[key, comm.me, one.peer, one.tag].append(_Message(one.kind, one.line))
    for letter in lost:  # those that were sent last
        sent[letter.comm.key, letter.comm.me, letter.peer, letter.tag].pop()
    everything: dict[Way, list[_Message]] = {}
    for of_rank in (yield from share(here.control, dict(sent))):
        everything.update(of_rank)
    left = []
    for key, comm in here.comms.items():
        for taken in _taken(comm):
            messages = everything.get((key, taken.peer, comm.me, taken.tag))
            if not messages:
                continue
            message = messages.pop()
            if message.kind != taken.kind and contents.BYTES not in (message.kind, taken.kind):
                fate = (
                    f"it takes {contents.name(taken.kind)}, and rank {comm.ranks[taken.peer]} "
                    f"sent {contents.name(message.kind)} (at {message.place})"
                )
                left.append(Left(taken, fate, True, False))
    return left[::-1]
