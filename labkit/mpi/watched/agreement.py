"""Before a collective moves data, the ranks of a communicator tell each other what they are about to do.

One small all_gather at a time, on a communicator of its own, begun again and again: that takes a third of
the time of a new one. Ranks that differ tell each other their calls in words, and all raise the same error.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from labkit.mpi.call import by_ranks
from labkit.mpi.errors import MismatchError
from labkit.mpi.watched.operation import SPINS
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.watched.collective import Collective

_DIGEST, _TEXT = 8, 512  # bytes
_REMEMBERED = 10_000


class Agreements:
    """Those of one communicator. `begun` counts what was begun: all ranks do it in one order."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm, self.begun = comm, 0
        self.size = comm.size
        self.digest, self.digests = bytearray(_DIGEST), bytearray(_DIGEST * self.size)
        self.text, self.texts = bytearray(_TEXT), bytearray(_TEXT * self.size)
        self.plain = [
            comm.Allgather_init([here, MPI.BYTE], [there, MPI.BYTE])
            for here, there in ((self.digest, self.digests), (self.text, self.texts))
        ]
        self.under_way: MPI.Request | None = None
        self.in_words = self.asked = False

    def ask(self, operation: Collective) -> None:
        """Begin to tell what this rank calls."""
        if self.asked:  # at once, and in vain
            self.asked = False
            return
        self.digest[:] = _digest_of(operation.agreed())
        self.start(in_words=False)

    def start(self, in_words: bool) -> None:
        self.in_words, self.under_way = in_words, self.plain[in_words]
        self.under_way.Start()
        self.begun += 1

    def at_once(self, key: tuple[object, ...]) -> bool:
        """Ask, for a call that agrees on `key`; whether all have told by now, and agree."""
        self.digest[:] = _digest_of(key)
        self.start(in_words=False)
        self.asked = True
        test = self.under_way.Test
        if any(test() for _ in SPINS) and self.digests == self.digest * self.size:
            self.asked = False
            return True
        return False

    def reached(self, operation: Collective) -> bool:
        """Whether all have told. MismatchError where they differ."""
        if not self.under_way.Test():
            return False
        if self.in_words:
            raise self._refusal(operation)
        if self.digests == self.digest * self.size:
            return True
        self.text[:] = f"{operation} at {operation.line}".encode()[:_TEXT].ljust(_TEXT)
        self.start(in_words=True)
        return False

    def _refusal(self, operation: Collective) -> MismatchError:
        texts = {
            rank: bytes(self.texts[place * _TEXT : (place + 1) * _TEXT]).decode(errors="replace").rstrip()
            for place, rank in enumerate(operation.comm.ranks)
        }
        return MismatchError(
            f"{operation} on {operation.comm.key}",
            "\n       ".join(by_ranks(texts)),
            "every rank of a communicator makes the same calls in the same order, with equal arguments",
        )

    def free(self) -> None:
        for request in self.plain:
            request.Free()
        self.comm.Free()


_digests: dict[tuple[object, ...], bytes] = {}


def _digest_of(key: tuple[object, ...]) -> bytes:
    found = _digests.get(key)
    if found is None:
        if len(_digests) >= _REMEMBERED:
            _digests.clear()
        found = _digests[key] = hashlib.blake2b(repr(key).encode(), digest_size=_DIGEST).digest()
    return found
