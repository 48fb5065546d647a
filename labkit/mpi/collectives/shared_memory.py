"""Large tensors of collectives, through memory that the ranks of one host share.

They go through it in pieces. An all-reduce has some stages for each (`collectives.pieces`), other verbs have
rounds of giving and taking (`collectives.exchanged`). Between two of these all ranks meet: each counts up a
number that the others read. It looks a few times, then waits as for any other step, so that a wait here ends
by an interrupt or a deadline too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Generator, Sequence
from enum import Enum

import torch

from labkit.mpi.collectives import mapped
from labkit.mpi.collectives.exchanged import Exchange
from labkit.mpi.collectives.pieces import Pair, Split, Views
from labkit.mpi.wire import steps
from labkit.mpi.wire.parts import PAUSE, Local, Part, Plan, Step
from labkit.mpi.wire.runtime import MPI

PIECE = 1 << 20  # bytes: smaller ones wait more often, larger ones leave the cache
EXCHANGED = 1 << 18  # bytes of a piece where there are two ranks, which wait for each other half as often
PLACE = 1 << 18  # bytes of a rank's share in a half of the memory for other verbs
AT_LEAST = 1 << 19  # bytes: below this two barriers cost more than the copies save
AT_MOST = 16  # ranks: each has PIECE bytes of memory
POSSIBLE = hasattr(os, "memfd_create") and platform.machine() in ("x86_64", "AMD64")
"""Other processors show a rank's stores to the others in another order, and Python has no fence."""

CACHE_LINE = 64  # bytes
LINE = CACHE_LINE // 8  # numbers in one: each rank's number has one of its own
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
    """Memory of one group, mapped by its ranks at their first large collective.

    `bytes` is [size + 1, PIECE], the last for what was reduced; `halves` is [2, size * PLACE], for other
    verbs than all_reduce. `numbers` says of each rank how often it came to a meeting.
    """

    bytes: torch.Tensor
    halves: torch.Tensor
    numbers: memoryview

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.mapping = _Mapping.UNTRIED
        self.others = [r * LINE for r in range(size) if r != rank]
        self.meetings, self.pieces, self.rounds = 0, 0, 0
        self.views: dict[tuple[int, torch.dtype, int], Views] = {}

    def open(self, nbytes: int, reduced: torch.dtype | None = None) -> Generator[Part, None, bool]:
        """Whether a call with so many bytes should go this way, the same on all ranks; if so, maps it.

        `reduced` is the dtype that is computed with.
        """
        if nbytes < AT_LEAST or not POSSIBLE:  # first, since small tensors are in a hurry
            return False
        if not 1 < self.size <= AT_MOST or reduced not in (None, *_DTYPES):
            return False
        yield from self.map()
        return self.mapping is _Mapping.DONE

    def map(self) -> Plan:
        """Parts after which all ranks have mapped the memory of rank 0, or none has; none, once tried."""
        if self.mapping is not _Mapping.UNTRIED:
            return
        record = torch.zeros(8, dtype=torch.int64)
        share, nbytes = self.size * PLACE, HEAD + (self.size + 1) * PIECE
        nbytes += 2 * share
        file = mapped.create(nbytes, record) if self.rank == 0 else None
        yield steps.broadcast(record, 0)
        yield PAUSE
        memory = mapped.attach(nbytes, record)
        met = torch.tensor([memory is not None], dtype=torch.uint8)
        yield steps.all_reduce(met, "MIN")
        yield PAUSE
        if met:
            self.numbers = memoryview(memory)[HEAD // 2 : HEAD].cast("q")
            everything = torch.frombuffer(memory, dtype=torch.uint8, offset=HEAD)
            self.bytes = everything[: -2 * share].view(self.size + 1, PIECE)
            self.halves = everything[-2 * share :].view(2, share)
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

    def exchange(self, part: Exchange, at_once: bool) -> Plan:
        """Give and take, round after round.

        They use the two halves in turn: who writes a half again has met all others over the other half, and
        so they have read it.
        """
        nbytes = min(PLACE, self.size * PLACE // part.places) // CACHE_LINE * CACHE_LINE
        length = nbytes // part.dtype.itemsize
        for start in range(0, part.longest, length):
            self.rounds += 1
            half = self.halves[self.rounds % 2].view(part.dtype)
            room = half[: part.places * length].view(part.places, length)
            yield Local(part.give, room, start)
            yield from self.meet(LOOKS if at_once else 1)
            yield Local(part.take, room, start)

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
