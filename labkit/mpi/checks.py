"""Checked mode: before a collective moves data, the ranks tell each other what they are about to do.

One small all_gather on the group's second communicator. Ranks that differ all raise the same
error and no data has moved, so the group stays usable. A rank that has not arrived yet is no
mismatch: the others wait for it.
"""

import hashlib

import torch

from labkit.mpi import steps
from labkit.mpi.errors import MismatchError

_DIGEST, _TEXT = 16, 496  # bytes of a record: what must be equal, and what a reader is told


class Agreement:
    """The exchange for one call; `reached()` polls it and raises MismatchError where ranks differ.

    `give` and `take` are the uneven block sizes of an all_to_all: what a rank gives to another
    must be what the other takes.
    """

    def __init__(self, channel, call, give=(), take=()):
        self.channel, self.call = channel, call
        file, line = call.locate()
        same = repr((call.verb, call.dtype, call.op, call.root, call.same))
        digest = hashlib.blake2b(same.encode(), digest_size=_DIGEST).digest()
        text = f"{call} at {file}, line {line}".encode()[:_TEXT].ljust(_TEXT)
        blocks = torch.zeros(2, channel.comm.size, dtype=torch.int64)
        if give:
            blocks[0], blocks[1] = torch.tensor(give), torch.tensor(take)
        record = bytearray(digest + text + blocks.numpy().tobytes())
        self.records = torch.empty(channel.comm.size, len(record), dtype=torch.uint8)
        self.step = steps.all_gather(torch.frombuffer(record, dtype=torch.uint8), self.records.view(-1), -1)
        channel.post(self.step)

    def reached(self):
        if not self.channel.test(self.step):
            return False
        records = [bytes(row) for row in self.records.numpy()]
        if any(record[:_DIGEST] != records[0][:_DIGEST] for record in records) or self._uneven():
            self._refuse([record[_DIGEST : _DIGEST + _TEXT].decode(errors="replace").rstrip() for record in records])
        return True

    def _uneven(self):
        give, take = self.records[:, _DIGEST + _TEXT :].contiguous().view(torch.int64).view(
            len(self.records), 2, -1).unbind(1)  # fmt: skip
        return not torch.equal(give, take.T)

    def _refuse(self, texts):
        ranks = {}
        for rank, text in zip(self.call.ranks, texts, strict=True):
            ranks.setdefault(text, []).append(str(rank))
        lines = [f"rank{'s' if len(who) > 1 else ''} {', '.join(who)}: {text}" for text, who in ranks.items()]
        raise MismatchError(
            f"{self.call} on group {self.call.group!r}", "\n       ".join(lines),
            "every rank of a group makes the same calls in the same order, with equal shapes and dtypes",
        )  # fmt: skip
