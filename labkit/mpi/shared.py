"""All-reduce of large tensors through memory that the ranks of one host share.

A tensor is cut into pieces, and each rank owns one part of every piece. Three stages: copy the
others' parts into the shared memory; combine all ranks' copies of the own part; take the combined
parts of the others. The ranks meet after each of the first two: each counts up a number that the
others read. Polled as any other step, so a wait here ends by an interrupt or a deadline too.
"""

import os
import platform
from dataclasses import dataclass

import torch

from labkit.mpi import mapped, steps
from labkit.mpi.buffers import average, carrier
from labkit.mpi.steps import Step

PIECE = 1 << 20  # bytes: smaller ones wait more often, larger ones leave the cache
AT_LEAST = 1 << 19  # bytes: below this two barriers cost more than the copies save
AT_MOST = 16  # ranks: each has SLOTS pieces of memory
POSSIBLE = hasattr(os, "memfd_create") and platform.machine() in ("x86_64", "AMD64")
"""Other processors show a rank's stores to the others in another order, and Python has no fence."""

LINE = 8  # numbers in a cache line: each rank's number has one of its own
ROOMS = 64  # kept; each is a few small objects
HEAD = 4096  # bytes: a token, and from half of it on the numbers
SLOTS = 3
"""Pieces of memory for what each rank gives, and for the sums. With two steps in flight, a rank writes into a
slot after all others have read what it gave there before, and its sums after all have taken those before. So
every call may begin with the first slot, which is in the cache."""

_COMBINE = {
    "SUM": torch.add, "AVG": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
}  # fmt: skip
_DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


class SharedMemory:
    """Memory of one group; its ranks meet in it at their first large all_reduce.

    `slots` is [size + 1, SLOTS, PIECE] bytes, the last for the sums: None before they met, False where
    they cannot. `numbers` says of each rank how often it came to a meeting.
    """

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.slots = self.numbers = None
        self.meetings, self.rooms = 0, {}

    def suits(self, tensor):
        """Whether all_reduce should go this way; the same on all ranks that call with like tensors."""
        if tensor.nbytes < AT_LEAST or not POSSIBLE:  # first, since small tensors are in a hurry
            return False
        return 1 < self.size <= AT_MOST and self.slots is not False and tensor.dtype in _DTYPES

    def meet(self):
        """Steps after which all ranks have mapped the memory of rank 0, or none has."""
        record = torch.zeros(8, dtype=torch.int64)
        nbytes = HEAD + (self.size + 1) * SLOTS * PIECE
        file = mapped.create(nbytes, record) if self.rank == 0 else None
        yield steps.broadcast(record, 0)
        yield steps.PAUSE
        memory = mapped.attach(nbytes, record)
        met = torch.tensor([memory is not None], dtype=torch.uint8)
        yield steps.all_reduce(met, "MIN")
        yield steps.PAUSE
        if met:
            self.numbers = memoryview(memory)[HEAD // 2 : HEAD].cast("q")
            slots = torch.frombuffer(memory, dtype=torch.uint8, offset=HEAD)
            self.slots = slots.view(self.size + 1, SLOTS, PIECE)
        else:
            self.slots = False
        if file is not None:
            file.close()

    def meeting(self, finish=None):
        """A step that is done when all ranks have come to it."""
        return Step(self._come, (), finish=finish)

    def _come(self):
        self.meetings += 1
        self.numbers[self.rank * LINE] = self.meetings
        return _Meeting(self.numbers, self.meetings, [r * LINE for r in range(self.size) if r != self.rank])

    def all_reduce(self, flat, op, after=None):
        """[n] -> [n], reduced over all ranks in place. `after` is called when all of it is there."""
        last, number = None, 0
        for number, piece in enumerate(flat.split(PIECE // flat.itemsize)):
            given = _Piece(self.room(piece, number % SLOTS), piece, op)
            given.give()
            yield self.meeting()
            if last is not None:  # two steps are in flight: that before this one is done
                last.combine()
                yield self.meeting(last.take)
            last = given
        if not number:
            yield steps.PAUSE
        last.combine()
        yield self.meeting(lambda: (last.take(), after and after()))

    def room(self, piece, slot):
        """Where a piece of that length passes through that slot."""
        key = piece.numel(), piece.dtype, slot
        if key not in self.rooms:
            if len(self.rooms) >= ROOMS:
                self.rooms.clear()
            self.rooms[key] = _Room.of(self.slots[:, slot, : piece.nbytes].view(piece.dtype), self.rank)
        return self.rooms[key]


class _Meeting:
    """What MPI's request is to MPI's barrier."""

    def __init__(self, numbers, number, places):
        self.numbers, self.number, self.places = numbers, number, places

    def Test(self, status=None):
        numbers, number = self.numbers, self.number
        for place in self.places:
            if numbers[place] < number:
                return False
        return True


@dataclass(frozen=True)
class _Room:
    """The views that a rank has of one slot; made once, since making them takes longer than a small copy."""

    cuts: tuple[tuple[int, int], ...]  # what this rank gives: the parts before and after its own
    given: tuple[torch.Tensor, ...]  # where it gives them
    own: tuple[int, int]  # the part that it reduces
    taken: tuple[torch.Tensor, ...]  # what the others gave of that
    total: torch.Tensor  # the sums of that
    totals: torch.Tensor  # the sums of all

    @classmethod
    def of(cls, copies, rank):
        """`copies` is [size + 1, n]."""
        size, n = copies.shape[0] - 1, copies.shape[1]
        own = n * rank // size, n * (rank + 1) // size
        cuts = tuple((start, end) for start, end in ((0, own[0]), (own[1], n)) if start < end)
        # From the next rank on, so that not all read the same memory at the same time.
        others = [(rank + d) % size for d in range(1, size)]
        return cls(
            cuts=cuts,
            given=tuple(copies[rank, start:end] for start, end in cuts),
            own=own,
            taken=tuple(copies[other, own[0] : own[1]] for other in others),
            total=copies[size, own[0] : own[1]],
            totals=copies[size],
        )


class _Piece:
    """One piece on its way through its room."""

    def __init__(self, room, piece, op):
        self.room, self.piece, self.op = room, piece, op

    def give(self):
        """Copy what others own."""
        for (start, end), there in zip(self.room.cuts, self.room.given, strict=True):
            there.copy_(self.piece[start:end])

    def combine(self):
        """Reduce the own part."""
        room, op = self.room, _COMBINE[self.op]
        start, end = room.own
        own = self.piece[start:end]
        carried = own.to(carrier(own.dtype))
        total = room.total if carried is own else carried
        for other in room.taken:
            op(carried, other, out=total)
            carried = total
        if self.op == "AVG":
            average(total, len(room.taken) + 1)
        if total is not room.total:
            room.total.copy_(total)

    def take(self):
        self.piece.copy_(self.room.totals)
