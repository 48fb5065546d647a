"""Checked mode: before a collective moves data, the ranks tell each other what they are about to do.

One small all_gather on the group's second communicator. Ranks that differ all raise the same
error and no data has moved, so the group stays usable. A rank that has not arrived yet is no
mismatch: the others wait for it.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import torch

from labkit.mpi.call import by_ranks
from labkit.mpi.errors import MismatchError
from labkit.mpi.wire import steps

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.wire.channel import Channel
    from labkit.mpi.wire.parts import Step

_DIGEST = 16  # bytes
_TEXT = 512
_IN_A_THREAD, _BESIDE = ", in a thread", ", beside "
_TAG, _TAGS = 1 << 12, 1 << 12  # of the texts: one for each check, apart from monitored_barrier's


class Agreement:
    """The exchange for one call; `reached()` polls it and raises MismatchError where ranks differ.

    A record is a digest of what must be equal and the uneven blocks of an all_to_all, `give` and
    `take`: what a rank gives to another must be what the other takes. Only when records differ do
    the ranks exchange what a reader wants to know, in messages: checks may be under way behind this one, and
    one rank may have begun more of them than another, so there is no order for a second all_gather.
    """

    def __init__(
        self, channel: Channel, call: Call, give: Sequence[int] = (), take: Sequence[int] = ()
    ) -> None:
        self.channel, self.call, self.thread = channel, call, threading.current_thread()
        self.beside: Call | None = None  # of another thread, called while this one was under way
        digest = hashlib.blake2b(repr(call.agreed()).encode(), digest_size=_DIGEST).digest()
        size = channel.comm.size
        blocks = array("q", [*give, *take]).tobytes() if give else bytes(16 * size)
        self.in_blocks = bool(give)
        self.uneven: list[str] = []  # blocks that differ where they meet
        self.record = digest + blocks
        self.records = bytearray(len(self.record) * size)
        self.step = steps.all_gather_bytes(self.record, self.records)
        self.channel.post(self.step)
        self.texts: list[torch.Tensor] = []  # what each rank has called, once they differ
        self.messages: list[Step] = []

    def reached(self) -> bool:
        if not self.channel.test(self.step):
            return False
        if not self.texts:
            if self._agree():
                return True
            self._tell()
        if all([self.channel.test(message) for message in self.messages]):
            self._refuse()
        return False

    def _tell(self) -> None:
        text = self._text().encode()[:_TEXT].ljust(_TEXT)
        mine, tag = torch.frombuffer(bytearray(text), dtype=torch.uint8), _TAG + self.step.number % _TAGS
        here, size = self.channel.comm.rank, self.channel.comm.size
        self.texts = [mine if rank == here else torch.empty_like(mine) for rank in range(size)]
        others = [rank for rank in range(size) if rank != here]
        self.messages = [steps.receive(self.texts[rank], rank, tag) for rank in others]
        self.messages += [steps.send(mine, rank, tag) for rank in others]
        for message in self.messages:
            self.channel.post(message)

    def _text(self) -> str:
        text = f"{self.call} at {self.call.line}"
        if self.thread is not threading.main_thread():
            text += _IN_A_THREAD
        return text + (f"{_BESIDE}{self.beside} at {self.beside.line}" if self.beside else "")

    def _agree(self) -> bool:
        size = self.channel.comm.size
        if self.records == self.record * size and not self.in_blocks:
            return True
        rows = _rows(self.records, size)
        if any(row[:_DIGEST] != rows[0][:_DIGEST] for row in rows):
            return False
        blocks = [array("q", row[_DIGEST:]) for row in rows]
        who = self.call.ranks
        self.uneven = [
            f"rank {who[a]} gives {blocks[a][b]} numbers to rank {who[b]}, which takes {blocks[b][size + a]}"
            for a in range(size)
            for b in range(size)
            if blocks[a][b] != blocks[b][size + a]
        ]
        return not self.uneven

    def _refuse(self) -> NoReturn:
        texts = [bytes(text.tolist()).decode(errors="replace").rstrip() for text in self.texts]
        lines = by_ranks(dict(zip(self.call.ranks, texts, strict=True)))
        fix = "every rank of a group makes the same calls in the same order, with equal shapes and dtypes"
        if any(_BESIDE in text for text in texts) or len({_IN_A_THREAD in text for text in texts}) > 1:
            fix = (
                "two threads of a rank call at once, and in another order on another rank: give one of them a"
                " group of its own, made before on all ranks, as process_group=dist.new_group() or group="
            )
        if self.uneven:
            fix = "input_split_sizes[b] of rank a must be output_split_sizes[a] of rank b"
        found = "\n       ".join([*lines, *self.uneven])
        raise MismatchError(f"{self.call} on group {self.call.group!r}", found, fix)


def _rows(records: bytearray, size: int) -> list[bytes]:
    width = len(records) // size
    return [bytes(records[start : start + width]) for start in range(0, len(records), width)]
