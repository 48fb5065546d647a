"""Checked mode: before a collective moves data, the ranks tell each other what they are about to do.

One small all_gather on the group's second communicator. Ranks that differ all raise the same
error and no data has moved, so the group stays usable. A rank that has not arrived yet is no
mismatch: the others wait for it.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from labkit.mpi.errors import MismatchError
from labkit.mpi.wire import steps

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.wire.channel import Channel

_DIGEST = 16  # bytes
_TEXT = 512


class Agreement:
    """The exchange for one call; `reached()` polls it and raises MismatchError where ranks differ.

    A record is a digest of what must be equal and the uneven blocks of an all_to_all, `give` and
    `take`: what a rank gives to another must be what the other takes. Only when records differ do
    the ranks exchange what a reader wants to know, in a second all_gather.
    """

    def __init__(
        self, channel: Channel, call: Call, give: Sequence[int] = (), take: Sequence[int] = ()
    ) -> None:
        self.channel, self.call = channel, call
        same = repr((call.verb, call.dtype, call.op, call.root, call.same))
        digest = hashlib.blake2b(same.encode(), digest_size=_DIGEST).digest()
        size = channel.comm.size
        blocks = array("q", [*give, *take]).tobytes() if give else bytes(16 * size)
        self.uneven = bool(give)
        self.record = digest + blocks
        self.refused = False
        self._exchange(self.record)

    def _exchange(self, record: bytes) -> None:
        self.records = bytearray(len(record) * self.channel.comm.size)
        self.step = steps.all_gather_bytes(record, self.records)
        self.channel.post(self.step)

    def reached(self) -> bool:
        if not self.channel.test(self.step):
            return False
        if self.refused:
            self._refuse()
        if self._agree():
            return True
        file, line = self.call.place
        self.refused = True
        self._exchange(f"{self.call} at {file}, line {line}".encode()[:_TEXT].ljust(_TEXT))
        return False

    def _agree(self) -> bool:
        size = self.channel.comm.size
        if self.records == self.record * size and not self.uneven:
            return True
        rows = _rows(self.records, size)
        if any(row[:_DIGEST] != rows[0][:_DIGEST] for row in rows):
            return False
        blocks = [array("q", row[_DIGEST:]) for row in rows]
        return all(blocks[a][b] == blocks[b][size + a] for a in range(size) for b in range(size))

    def _refuse(self) -> NoReturn:
        ranks: dict[str, list[str]] = {}
        rows = _rows(self.records, len(self.call.ranks))
        for rank, text in zip(self.call.ranks, rows, strict=True):
            ranks.setdefault(text.decode(errors="replace").rstrip(), []).append(str(rank))
        lines = [f"rank{'s' if len(who) > 1 else ''} {', '.join(who)}: {text}" for text, who in ranks.items()]
        raise MismatchError(
            f"{self.call} on group {self.call.group!r}",
            "\n       ".join(lines),
            "every rank of a group makes the same calls in the same order, with equal shapes and dtypes",
        )


def _rows(records: bytearray, size: int) -> list[bytes]:
    width = len(records) // size
    return [bytes(records[start : start + width]) for start in range(0, len(records), width)]
