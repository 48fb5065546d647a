"""Large tensors of collectives, through memory that the ranks of one host share.

They go through it in pieces. An all-reduce has some stages for each (`collectives.pieces`), between which all
ranks meet. Other verbs have rounds of giving and taking (`collectives.exchanged`), in which who gives may be
some rounds ahead of who takes. Each rank counts up numbers that the others read. Who waits for one looks a
few times, then waits as for any other step, so that a wait here ends by an interrupt or a deadline too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Generator, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import torch

from labkit.mpi.collectives import mapped
from labkit.mpi.collectives.exchanged import Exchange
from labkit.mpi.collectives.pieces import Pair, Split, Stage, Views
from labkit.mpi.wire import steps
from labkit.mpi.wire.parts import PAUSE, Local, Part, Plan, Step
from labkit.mpi.wire.runtime import MPI

PIECE = 1 << 20  # bytes: smaller ones wait more often, larger ones leave the cache
EXCHANGED = 1 << 18  # bytes of a piece where there are two ranks, which wait for each other half as often
PLACE = 1 << 20  # bytes of a rank's share in one round of other verbs
AHEAD = 4  # rounds that may be under way
ROUNDS = 1 << 32  # more than any exchange has
AT_LEAST = 1 << 19  # bytes: below this two barriers cost more than the copies save
AT_MOST = 16  # ranks: each has PIECE and AHEAD * PLACE bytes of memory
POSSIBLE = hasattr(os, "memfd_create") and platform.machine() in ("x86_64", "AMD64")
"""Other processors show a rank's stores to the others in another order, and Python has no fence."""

CACHE_LINE = 64  # bytes
LINE = CACHE_LINE // 8  # numbers in one: each rank's numbers have one of their own
MEETING, GIVEN, TAKEN = range(3)
"""A rank's numbers: of meetings it came to, of its last round of giving, and of its last of taking."""

LOOKS = 200  # as many as a rank that came at the same time needs, on the same core too
VIEWS = 64  # kept; each is a few small objects
HEAD = 4096  # bytes: a token, and from half of it on the numbers

_DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


class _Mapping(Enum):
    UNTRIED = "the ranks meet in it at their first large collective"
    DONE = "all have mapped it"
    IMPOSSIBLE = "some rank cannot"


class SharedMemory:
    """Memory of one group, mapped by its ranks at their first large collective.

    `bytes` is [size + 1, PIECE], the last for what was reduced; `rooms` is [AHEAD, size * PLACE], for the
    rounds of other verbs than all_reduce; `used` has the number of each room's last round; `numbers` has
    those of all ranks.
    """

    bytes: torch.Tensor
    rooms: torch.Tensor
    numbers: memoryview

    def __init__(self, rank: int, hosts: Sequence[str]) -> None:
        """`hosts` has each rank's."""
        self.rank, self.size, self.hosts = rank, len(hosts), hosts
        self.one_host = len(set(hosts)) == 1
        self.mapping = _Mapping.UNTRIED
        self.others = [other for other in range(self.size) if other != rank]
        self.meetings, self.pieces, self.exchanges = 0, 0, 0
        self.used = [0] * AHEAD
        self.views: dict[tuple[int, torch.dtype, int], Views] = {}

    def open(self, nbytes: int, reduced: torch.dtype | None = None) -> Generator[Part, None, bool]:
        """Whether a call with so many bytes should go this way, the same on all ranks; if so, maps it.

        `reduced` is the dtype that is computed with.
        """
        if nbytes < AT_LEAST or not POSSIBLE:  # first, since small tensors are in a hurry
            return False
        if not self.one_host or not 1 < self.size <= AT_MOST or reduced not in (None, *_DTYPES):
            return False
        yield from self.map()
        return self.mapping is _Mapping.DONE

    def apart(self, nbytes: int, reduced: torch.dtype) -> bool:
        """Whether a call with so many bytes, which are computed with, goes between hosts."""
        return nbytes >= AT_LEAST and not self.one_host and reduced in _DTYPES

    def map(self) -> Plan:
        """Parts after which all ranks have mapped the memory of rank 0, or none has; none, once tried."""
        if self.mapping is not _Mapping.UNTRIED:
            return
        record = torch.zeros(8, dtype=torch.int64)
        pieces, rooms = (self.size + 1) * PIECE, AHEAD * self.size * PLACE
        nbytes = HEAD + pieces + rooms
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
            self.bytes = everything[:pieces].view(self.size + 1, PIECE)
            self.rooms = everything[pieces:].view(AHEAD, -1)
        self.mapping = _Mapping.DONE if met else _Mapping.IMPOSSIBLE
        if file is not None:
            file.close()

    def all_reduce(self, flat: torch.Tensor, op: str, at_once: bool) -> Plan:
        """[n] -> [n], reduced over all ranks in place. `at_once`: the caller has nothing else to do."""
        kind, nbytes = (Pair, EXCHANGED) if self.size == 2 else (Split, PIECE)
        for piece in flat.unsafe_split(nbytes // flat.itemsize):  # autograd is not to know, and need not
            room = self.views_of(kind, piece)
            *before, last = room.stages
            for stage in before:
                yield Local(self._come_after, stage, room, piece, op)
                yield from self.reached(self.others, MEETING, self.meetings, at_once)
            yield Local(last, room, piece, op)

    def _come_after(self, stage: Stage, room: Views, piece: torch.Tensor, op: str) -> None:
        stage(room, piece, op)
        self.meetings += 1
        self._count(MEETING, self.meetings)

    def exchange(self, part: Exchange, at_once: bool) -> Plan:
        """Give and take, round after round.

        Nobody writes into a room before what was in it is taken: that of an earlier round, by the takers of
        this exchange; that of an earlier exchange, by all, who count as far as its end when they leave it. So
        a wrong program in which an exchange is longer on one rank than on another leaves the next one right.
        """
        self.exchanges += 1
        first = self.exchanges * ROUNDS
        rounds = list(self._rounds(part, first))
        behind = AHEAD - 1 if part.gives and part.sources else 0
        for turn in range(len(rounds) + behind):
            if part.gives and turn < len(rounds):
                one = rounds[turn]
                who = part.takers if one.before > first else self.others
                yield from self.reached(who, TAKEN, one.before, at_once)
                yield Local(self._give, part, one)
            if part.sources and turn >= behind:
                one = rounds[turn - behind]
                yield from self.reached(part.sources, GIVEN, one.number, at_once)
                yield Local(self._take, part, one)
        yield Local(self._count, TAKEN, first + ROUNDS)

    def _rounds(self, part: Exchange, first: int) -> Iterator[_Round]:
        nbytes = min(PLACE, self.size * PLACE // part.places) // CACHE_LINE * CACHE_LINE
        length = nbytes // part.dtype.itemsize
        for turn, start in enumerate(range(0, part.longest, length)):
            number, room = first + turn + 1, (self.exchanges + turn) % AHEAD
            places = self.rooms[room].view(part.dtype)[: part.places * length].view(part.places, length)
            yield _Round(number, self.used[room], places, start)
            self.used[room] = number

    def _give(self, part: Exchange, one: _Round) -> None:
        part.give(one.room, one.start)
        self._count(GIVEN, one.number)

    def _take(self, part: Exchange, one: _Round) -> None:
        part.take(one.room, one.start)
        self._count(TAKEN, one.number)

    def _count(self, which: int, number: int) -> None:
        self.numbers[self.rank * LINE + which] = number

    def reached(self, ranks: Sequence[int], which: int, count: int, at_once: bool) -> Plan:
        """Parts that are done when these ranks have counted as far as that."""
        others = _Others(self.numbers, [rank * LINE + which for rank in ranks], count)
        yield Local(others.look, LOOKS if at_once else 1)
        if not others.there:
            yield Step(lambda: others, ())
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


class _Round(NamedTuple):
    """Its room is [places, n], for slices that begin at `start`; `before`: the last round that had it."""

    number: int
    before: int
    room: torch.Tensor
    start: int


class _Others:
    """They are there once their numbers are that large; a step waits for them as for a request of MPI's."""

    def __init__(self, numbers: memoryview, places: Sequence[int], number: int) -> None:
        self.numbers, self.places, self.number = numbers, places, number
        self.there = False

    def look(self, times: int) -> None:
        for _ in range(times):
            if self.Test():
                return
            os.sched_yield()

    def Test(self, status: MPI.Status | None = None, /) -> bool:
        numbers, number = self.numbers, self.number
        for place in self.places:
            if numbers[place] < number:
                return False
        self.there = True
        return True
