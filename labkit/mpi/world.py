"""What all groups of this process share: MPI itself, hidden communicators, and a store.

Nothing here blocks without a way out. MPI's own constructors of communicators do block, in C and
deaf to interrupts, so ranks first meet at a gate that polls, and call MPI once all are there.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

import torch

from labkit import LabError
from labkit.mpi.call import Call
from labkit.mpi.cuda import gpus, one_each
from labkit.mpi.errors import CommunicationError, DeadlineError, MismatchError, TaintedError
from labkit.mpi.process import end_together, keep_moving
from labkit.mpi.record.position import remember_where_threads_start
from labkit.mpi.wire import steps, store
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.meet import Meeting, duplicate, finished
from labkit.mpi.wire.parts import Step
from labkit.mpi.wire.runtime import MPI, WORLD
from labkit.mpi.wire.waiting import wait_until

if TYPE_CHECKING:
    from labkit.mpi.lifecycle import Lifecycle
    from labkit.mpi.progress import UnderWay

Pair: TypeAlias = tuple[MPI.Intracomm, MPI.Intracomm]
"""The communicators of a group: for data, and for checks."""
Messages: TypeAlias = Iterable[tuple[int, torch.Tensor]]
"""With whom, and what."""

_GATE, _GROUP = 1, 2  # tags on the control communicator
_PATIENCE = 1800.0  # seconds: torch's default timeout
_FAILED = 16  # works kept


class World:
    """One per process, made by the first group and kept when groups are destroyed.

    `control` carries gates and where the store is. `rescue` carries nothing but recovery,
    so it is clean whatever was given up on the others.
    """

    def __init__(self, control: MPI.Intracomm, rescue: MPI.Intracomm) -> None:
        self.control, self.rescue = Channel(control), Channel(rescue)
        self.rank, self.size = control.rank, control.size
        self.groups: dict[str, Lifecycle] = {}  # key -> group, in the order of creation
        self.abandoned: dict[str, Lifecycle] = {}  # destroyed ones with something in flight
        self.generation = 0  # how often a default group was made: its sub-groups reuse names
        self.failed: deque[UnderWay] = deque(maxlen=_FAILED)  # of which perhaps nobody has heard
        self.left: list[UnderWay] = []  # what the last cell did not wait for
        self.sent_more = 0  # messages than received; counted where sends are not checked
        self.tainted: Call | None = None
        # Threads of cells whose communication failed: what they still call would meet the next cell's calls.
        self.stray: WeakSet[threading.Thread] = WeakSet()
        places = [text.split("|") for text in self._all_gather(f"{MPI.Get_processor_name()}|{gpus()}")]
        self.hosts, seen = [host for host, _ in places], [gpu for _, gpu in places]
        Channel.both_ways = 1 < len(set(self.hosts)) < self.size
        self.gpu_each = torch.cuda.is_available() and one_each(self.hosts, seen)
        # The first rank decides for all: a check that only some ranks take part in would hang.
        self.checked = self._all_gather(os.environ.get("LABKIT_CHECK", ""))[0] not in ("", "0")
        self.store = store.shared(self.rank, self.size, len(set(self.hosts)) > 1, self._all_gather)

    def _all_gather(self, text: str, width: int = 1024) -> list[str]:
        texts = bytearray(self.size * width)
        step = steps.all_gather_bytes(text.encode().ljust(width), texts)
        self.control.post(step)
        self._wait(Call("init_process_group", "world", range(self.size)), [step], _PATIENCE)
        return [texts[start : start + width].decode().rstrip() for start in range(0, len(texts), width)]

    def _wait(self, call: Call, pending: Sequence[Step], seconds: float) -> None:
        test = self.control.test
        try:
            if wait_until(lambda: all([test(step) for step in pending]), seconds, call):
                return
        except KeyboardInterrupt:
            self.tainted = call
            raise
        self.tainted = call
        raise DeadlineError(
            f"{call} on group {call.group!r}",
            f"not every rank of {list(call.ranks)} called it within {seconds:g} s",
            "every rank must call it, in the same order; then labkit.mpi.recover() on every rank",
        )

    def gate(self, ranks: Sequence[int], label: str, seconds: float) -> None:
        """Return when every rank in `ranks` stands here with the same label."""
        if self.tainted:
            raise TaintedError(
                f"group {label!r}", f"{self.tainted} was given up", "labkit.mpi.recover() on every rank"
            )
        call = Call("new_group", label, tuple(ranks))
        call.locate()
        mark = hashlib.blake2b(repr((label, tuple(ranks))).encode(), digest_size=16).digest()
        mine = torch.frombuffer(bytearray(mark), dtype=torch.uint8)
        leader, others = ranks[0], ranks[1:]
        if self.rank == leader:
            marks = {rank: torch.empty_like(mine) for rank in others}
            self._exchange(call, [], marks.items(), seconds)
            verdict = torch.tensor([all(torch.equal(mine, other) for other in marks.values())])
            self._exchange(call, [(rank, verdict) for rank in others], [], seconds)
        else:
            verdict = torch.tensor([False])
            self._exchange(call, [(leader, mine)], [(leader, verdict)], seconds)
        if not verdict:
            raise MismatchError(
                f"new_group({list(ranks)}), here group {label!r}",
                "another rank of it is making another group",
                "call new_group in the same order, with the same ranks, on every rank",
            )

    def _exchange(self, call: Call, given: Messages, taken: Messages, seconds: float) -> None:
        pending = [steps.receive(tensor, rank, _GATE) for rank, tensor in taken]
        pending += [steps.send(tensor, rank, _GATE) for rank, tensor in given]
        for step in pending:
            self.control.post(step)
        self._wait(call, pending, seconds)

    def communicators(self, ranks: Sequence[int], label: str, seconds: float = _PATIENCE) -> Pair:
        """Two fresh communicators over `ranks`, a list of world ranks: for data, and for checks."""
        self.gate(ranks, label, seconds)
        return finished(self.fresh(ranks))

    def fresh(self, ranks: Sequence[int]) -> Meeting[Pair]:
        """The same without a gate: the caller knows that all ranks are here."""
        group = self.control.comm.Get_group().Incl(ranks)
        comm = self.control.comm.Create_group(group, tag=_GROUP)
        return comm, (yield from duplicate(comm))


_world: World | None = None
# Communicators under construction: an interrupted start goes on where it was.
_begun: list[tuple[MPI.Intracomm, MPI.Request]] = []


def world() -> World:
    """The World of this process; the first call is collective over all MPI processes."""
    global _world
    if _world is None:
        if MPI.Is_finalized():
            raise LabError(
                "a process group on MPI", "MPI is finalised in this process", "start a new process"
            )
        if not _begun:
            _begun.extend(WORLD.Idup() for _ in range(2))
        call = Call("init_process_group", "world", range(WORLD.size))
        if not wait_until(lambda: all([request.Test() for _, request in _begun]), _PATIENCE, call):
            raise CommunicationError(
                str(call), f"some ranks did not call it in {_PATIENCE:g} s", "call it on all"
            )
        _world = World(*(comm for comm, _ in _begun))
        end_together()
        if _world.checked:
            remember_where_threads_start()
            keep_moving(_world.rescue.comm)
    return _world


def existing() -> World | None:
    """The World if there is one."""
    return _world
