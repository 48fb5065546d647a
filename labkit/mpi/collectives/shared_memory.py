"""All-reduce of large tensors through memory that the ranks of one host share.

A tensor goes through it in pieces. Of each a rank takes its part in some stages (`collectives.pieces`), and
between two stages all ranks meet: each counts up a number that the others read. It looks a few times, then
waits as for any other step, so that a wait here ends by an interrupt or a deadline too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from enum import Enum

import torch

from labkit.mpi.collectives import mapped
from labkit.mpi.collectives.pieces import Pair, Split, Views
from labkit.mpi.wire import steps
from labkit.mpi.wire.parts import PAUSE, Local, Plan, Step
from labkit.mpi.wire.runtime import MPI

PIECE = 1 << 20  # bytes: smaller ones wait more often, larger ones leave the cache
EXCHANGED = 1 << 18  # bytes of a piece where there are two ranks, which wait for each other half as often
AT_LEAST = 1 << 19  # bytes: below this two barriers cost more than the copies save
AT_MOST = 16  # ranks: each has PIECE bytes of memory
POSSIBLE = hasattr(os, "memfd_create") and platform.machine() in ("x86_64", "AMD64")
"""Other processors show a rank's stores to the others in another order, and Python has no fence."""

LINE = 8  # numbers in a cache line: each rank's number has one of its own
LOOKS = 200  # as many as a rank that came at the same time needs, on the same core too
VIEWS = 64  # kept; each is a few small objects
HEAD = 4096  # bytes: a token, and from half of it on the numbers

_DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


class _Mapping(Enum):
    UNTRIED = "the ranks meet in it at their first large all_reduce"
    DONE = "all have mapped it"
    IMPOSSIBLE = "some rank cannot"


class SharedMemory:
    """Memory of one group, mapped by its ranks at their first large all_reduce.

    `bytes` is [size + 1, PIECE], the last for what was reduced. `numbers` says of each rank how often it came
    to a meeting.
    """

    bytes: torch.Tensor
    numbers: memoryview

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.mapping = _Mapping.UNTRIED
        self.others = [r * LINE for r in range(size) if r != rank]
        self.meetings, self.pieces = 0, 0
        self.views: dict[tuple[int, torch.dtype, int], Views] = {}

    @property
    def mapped(self) -> bool:
        return self.mapping is _Mapping.DONE

    def suits(self, tensor: torch.Tensor) -> bool:
        """Whether all_reduce should go this way; the same on all ranks that call with like tensors."""
        # First, since small tensors are in a hurry; a sparse one, which is refused later, has no nbytes.
        if tensor.numel() * tensor.itemsize < AT_LEAST or not POSSIBLE:
            return False
        possible = self.mapping is not _Mapping.IMPOSSIBLE
        return possible and 1 < self.size <= AT_MOST and tensor.dtype in _DTYPES

    def map(self) -> Plan:
        """Parts after which all ranks have mapped the memory of rank 0, or none has; none, once tried."""
        if self.mapping is not _Mapping.UNTRIED:
            return
        record = torch.zeros(8, dtype=torch.int64)
        nbytes = HEAD + (self.size + 1) * PIECE
        file = mapped.create(nbytes, record) if self.rank == 0 else None
        yield steps.broadcast(record, 0)
        yield PAUSE
        memory = mapped.attach(nbytes, record)
        met = torch.tensor([memory is not None], dtype=torch.uint8)
        yield steps.all_reduce(met, "MIN")
        yield PAUSE
        if met:
            self.numbers = memoryview(memory)[HEAD // 2 : HEAD].cast("q")
            self.bytes = torch.frombuffer(memory, dtype=torch.uint8, offset=HEAD).view(self.size + 1, PIECE)
        self.mapping = _Mapping.DONE if met else _Mapping.IMPOSSIBLE
        if file is not None:
            file.close()

    def all_reduce(self, flat: torch.Tensor, op: str, at_once: bool) -> Plan:
        """[n] -> [n], reduced over all ranks in place. `at_once`: the caller has nothing else to do."""
        kind, nbytes = (Pair, EXCHANGED) if self.size == 2 else (Split, PIECE)
        for piece in flat.unsafe_split(nbytes // flat.itemsize):  # autograd is not to know, and need not
            room = self.views_of(kind, piece)
            first, *others = room.stages
            yield Local(first, room, piece, op)
            for stage in others:
                yield from self.meet(LOOKS if at_once else 1)
                yield Local(stage, room, piece, op)

    def meet(self, looks: int) -> Plan:
        """Parts that are done when all ranks have come to the same meeting."""
        self.meetings += 1
        meeting = _Meeting(self.numbers, self.meetings, self.others)
        yield Local(meeting.come, self.rank * LINE, looks)
        if not meeting.complete:
            yield Step(lambda: meeting, ())
            yield PAUSE

    def views_of(self, kind: type[Views], piece: torch.Tensor) -> Views:
        """Where a piece of that length passes through. One after another, pieces use two places in turn."""
        self.pieces += 1
        key = piece.numel(), piece.dtype, self.pieces % 2 if kind is Pair else 0
        if key not in self.views:
            if len(self.views) >= VIEWS:
                self.views.clear()
            start = key[-1] * EXCHANGED
            memory = self.bytes[:, start : start + piece.nbytes].view(piece.dtype)
            self.views[key] = kind.of(memory, self.rank)
        return self.views[key]


class _Meeting:
    """All ranks come to it; its step waits for it as for a request of MPI's."""

    def __init__(self, numbers: memoryview, number: int, places: Sequence[int]) -> None:
        self.numbers, self.number, self.places = numbers, number, places
        self.complete = False

    def come(self, place: int, looks: int) -> None:
        """Tell the others, and look so many times whether they are here."""
        self.numbers[place] = self.number
        for _ in range(looks):
            if self.Test():
                return
            os.sched_yield()

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        numbers, number = self.numbers, self.number
        for place in self.places:
            if numbers[place] < number:
                return False
        self.complete = True
        return True
