"""All-reduce of large tensors through memory that the ranks of one host share.

A tensor is cut into pieces, and each rank owns one part of every piece. Three stages: copy the
others' parts into the shared memory; combine all ranks' copies of the own part; take the combined
parts of the others. A barrier ends each of the first two. Polled as any other step, so a wait here
ends by an interrupt or a deadline too.
"""

import mmap
import os
import secrets
import socket
from contextlib import suppress

import torch

from labkit.mpi import steps
from labkit.mpi.buffers import average, carrier

PIECE = 1 << 20  # bytes: smaller ones wait more often, larger ones leave the cache
AT_LEAST = 1 << 19  # bytes: below this two barriers cost more than the copies save
AT_MOST = 16  # ranks: each has SLOTS pieces of memory
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
    they cannot.
    """

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.slots = None

    def suits(self, tensor):
        """Whether all_reduce should go this way; the same on all ranks that call with like tensors."""
        possible = 1 < self.size <= AT_MOST and self.slots is not False and hasattr(os, "memfd_create")
        return possible and tensor.nbytes >= AT_LEAST and tensor.dtype in _DTYPES

    def meet(self):
        """Steps after which all ranks have mapped the memory of rank 0, or none has."""
        record = torch.zeros(8, dtype=torch.int64)
        file = _create(self.size, record) if self.rank == 0 else None
        yield steps.broadcast(record, 0)
        yield steps.PAUSE
        slots = _open(self.size, record)
        met = torch.tensor([slots is not None], dtype=torch.uint8)
        yield steps.all_reduce(met, "MIN")
        yield steps.PAUSE
        self.slots = slots if met else False
        if file is not None:
            file.close()

    def all_reduce(self, flat, op, after=None):
        """[n] -> [n], reduced over all ranks in place. `after` is called when all of it is there."""
        cut = enumerate(flat.split(PIECE // flat.itemsize))
        pieces = [_Piece(self, piece, op, number % SLOTS) for number, piece in cut]
        for number, piece in enumerate(pieces):
            piece.give()
            yield steps.barrier()
            if number:  # two steps are in flight: that before this one is done
                yield pieces[number - 1].combine()
        if len(pieces) == 1:
            yield steps.PAUSE
        last = pieces[-1].combine()
        last.finish = lambda: (pieces[-1].take(), after and after())
        yield last


class _Piece:
    """One piece on its way through one slot."""

    def __init__(self, memory, piece, op, slot):
        self.piece, self.op, self.rank, self.size = piece, op, memory.rank, memory.size
        n = piece.numel()
        self.cuts = [n * rank // self.size for rank in range(self.size + 1)]
        self.copies = memory.slots[:, slot, : piece.nbytes].view(piece.dtype)

    def _part(self, rank):
        return slice(self.cuts[rank], self.cuts[rank + 1])

    def give(self):
        """Copy what others own."""
        mine, own = self.copies[self.rank], self._part(self.rank)
        for part in (slice(0, own.start), slice(own.stop, None)):
            mine[part].copy_(self.piece[part])

    def combine(self):
        """Reduce the own part; the step after which the parts of the others can be taken."""
        part, op = self._part(self.rank), _COMBINE[self.op]
        own = self.piece[part]
        total = own.to(carrier(own.dtype))
        for other in self._others():
            op(total, self.copies[other, part], out=total)
        if self.op == "AVG":
            average(total, self.size)
        if total is not own:
            own.copy_(total)
        self.copies[self.size, part].copy_(own)
        step = steps.barrier()
        step.finish = self.take
        return step

    def take(self):
        for other in self._others():
            part = self._part(other)
            self.piece[part].copy_(self.copies[self.size, part])

    def _others(self):
        """From the next rank on, so that not all read the same memory at the same time."""
        return [(self.rank + d) % self.size for d in range(1, self.size)]


def _create(size, record):
    """Make the memory and write into `record` how to find it; the file, or None where that fails."""
    try:
        file = os.fdopen(os.memfd_create("labkit"), "r+b")
        os.ftruncate(file.fileno(), (size + 1) * SLOTS * PIECE)
    except OSError:
        return None
    token = secrets.token_bytes(16)
    file.write(token)
    file.flush()
    facts = [1, os.getpid(), file.fileno(), _host()]
    record[:4] = torch.tensor(facts)
    record[4:6] = torch.frombuffer(bytearray(token), dtype=torch.int64)
    return file


def _open(size, record):
    """Map the memory of that record; None on another host, or where it is out of reach."""
    made, pid, number, host = record[:4].tolist()
    if not made or host != _host():
        return None
    with suppress(OSError), open(f"/proc/{pid}/fd/{number}", "r+b") as file:
        slots = torch.frombuffer(mmap.mmap(file.fileno(), (size + 1) * SLOTS * PIECE), dtype=torch.uint8)
        # A process of that number may live in another container of the same name.
        if torch.equal(slots[:16].view(torch.int64), record[4:6]):
            return slots.view(size + 1, SLOTS, PIECE)
    return None


def _host():
    return int.from_bytes(socket.gethostname().encode()[-7:], "big")
