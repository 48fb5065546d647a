"""Asynchronous collectives while the network is limited: their messages move while the process computes.

On a cluster a network card or the device moves them. Here a thread does, for one collective of a group after
the other in the order of the calls. It knows nothing of channels and works: a message is a stamp and a chunk.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from labkit.mpi.messages import slow_link
from labkit.mpi.record import record
from labkit.mpi.wire.buffers import average, dense
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Work

if TYPE_CHECKING:
    from labkit.mpi.group import Group

TAG = (1 << 14) + 1
"""Of these messages: no receive of the user's may get one, and none of a schedule."""

_FIRST_NAP, _LONGEST_NAP = 50e-6, 0.001  # seconds between two looks: ranks that compute want the core
_PATIENCE = 0.005  # for who waits; what is over wakes it at once
_STAMP = struct.Struct("d")


class _Ended(Exception):
    """The call was given up, or its group began anew."""


class InBackground(Work):
    """A collective, in a ring or half of one. `asked` is done when all ranks have asked for the same."""

    def __init__(self, asked: Work, tensors: Sequence[torch.Tensor], op: str) -> None:
        super().__init__(asked.group, asked.call, None, asked.results)
        self.asked, self.tensors, self.op = asked, tensors, op
        self.link, self.over = slow_link.link, threading.Event()
        self.before, self.group.background = self.group.background, self.over
        if record.records is not None:
            self.call.locate()
            record.begin(self.call)
            self.call.posted, self.recorded = record.clock(), True
        threading.Thread(target=self._run, daemon=True).start()

    def poll(self) -> bool:
        """True when done. Rests a little, so that others have the core."""
        return self.done or self.over.wait(_PATIENCE)

    def get_future(self) -> torch.futures.Future:
        """A future that is complete, but for DDP, which wants it at the end of its backward pass only.

        It is completed there, before DDP looks at it: the wait is Python's and hears interrupts.
        """
        caller = sys._getframe().f_back  # none in a thread of autograd's own
        if self.future is None and caller and caller.f_code.co_name == "_engine_run_backward":
            self.future = torch.futures.Future()
            torch.autograd.Variable._execution_engine.queue_callback(self._complete)
        elif self.future is not None:
            self._complete()
        return self.future or super().get_future()

    def _complete(self) -> None:
        if not self.future.done():
            self.wait()
            self.future.set_result(self.results)

    # What the thread does

    def _run(self) -> None:
        try:
            self._meet()
            VERBS[self.asked.call.verb](self)
        except _Ended:
            pass
        except Exception as error:  # for who waits
            self.error, self.call.failed = error, True
        finally:
            if not self.done:
                self.finish()
            self.over.set()

    def _meet(self) -> None:
        while self.before is not None and not self.before.wait(_PATIENCE):
            self._look()
        self._until(self.asked.poll)
        if self.asked.error is not None:
            self.asked.seen = True
            raise self.asked.error

    def _all_reduce(self) -> None:
        for tensor in self.tensors:
            numbers, back = dense(tensor)
            self._ring(numbers.detach().view(-1), 0, 2)
            self._hand_over(numbers)
            if back is not None:
                back()

    def _reduce_scatter(self) -> None:
        """The first half, in which rank r ends with the sum of chunk r + 1."""
        for target, source in zip(self.results, self.tensors, strict=True):
            blocks = dense(source)[0].detach().view(self.group.members, -1).roll(1, 0)
            self._ring(blocks.view(-1), 0, 1)
            target.detach().copy_(blocks[(self.group.me + 1) % self.group.members].view(target.shape))
            self._hand_over(target)

    def _all_gather(self) -> None:
        """The second half, in which rank r begins with chunk r + 1."""
        for target, source in zip(self.results, self.tensors, strict=True):
            numbers = dense(source)[0].detach().view(-1)
            blocks = numbers.new_empty(self.group.members, numbers.numel())
            blocks[(self.group.me + 1) % self.group.members] = numbers
            self._ring(blocks.view(-1), 1, 2)
            target.detach().copy_(blocks.roll(-1, 0).view(target.shape))

    def _hand_over(self, numbers: torch.Tensor) -> None:
        if self.op == "AVG":
            average(numbers, self.group.members)

    def _ring(self, flat: torch.Tensor, first: int, last: int) -> None:
        """From half `first` of the ring to before half `last`: the first adds up, the second hands out."""
        ranks, me = self.group.members, self.group.me
        chunks = flat.tensor_split(ranks)
        for step in range(first * (ranks - 1), last * (ranks - 1)):
            sending = self._send(chunks[(me - step) % ranks], (me + 1) % ranks)
            own = chunks[(me - step - 1) % ranks]
            arrived = self._receive(own, (me - 1) % ranks)
            for request in sending:
                self._done(request)
            if step < ranks - 1:
                own += arrived
            else:
                own.copy_(arrived)

    def _send(self, chunk: torch.Tensor, rank: int) -> list[MPI.Request]:
        ranks = self.group.ranks
        _, due = self.link.leave(chunk.nbytes, ranks[self.group.me], ranks[rank])
        parts = bytearray(_STAMP.pack(due)), _memory(chunk)
        return [self.channel.comm.Isend([part, MPI.BYTE], rank, TAG) for part in parts]

    def _receive(self, like: torch.Tensor, rank: int) -> torch.Tensor:
        stamp, arrived = bytearray(_STAMP.size), torch.empty_like(like)
        for part in stamp, _memory(arrived):
            self._done(self.channel.comm.Irecv([part, MPI.BYTE], rank, TAG))
        due = self.link.arrive(arrived.nbytes, *_STAMP.unpack(stamp))
        while (left := due - self.link.clock()) > 0:
            self._look()
            time.sleep(min(left, _PATIENCE))
        return arrived

    def _done(self, request: MPI.Request) -> None:
        try:
            self._until(lambda: any(request.Test() for _ in Channel.TESTS))
        except _Ended:
            request.Cancel()
            raise

    def _until(self, is_so: Callable[[], object]) -> None:
        nap = _FIRST_NAP
        while not is_so():
            self._look()
            time.sleep(nap)
            nap = min(1.5 * nap, _LONGEST_NAP)

    def _look(self) -> None:
        if self.done or self.channel.closed or self.channel is not self.group.data:
            raise _Ended


def _memory(tensor: torch.Tensor) -> Any:
    return tensor.view(torch.uint8).numpy()


VERBS: dict[str, Callable[[InBackground], None]] = {
    "all_reduce": InBackground._all_reduce,
    "all_gather_into_tensor": InBackground._all_gather,
    "reduce_scatter_tensor": InBackground._reduce_scatter,
}


def collective(
    group: Group, verb: str, results: Sequence[Any], tensors: Sequence[torch.Tensor], **about: Any
) -> InBackground:
    """Begin one of VERBS; the call returns at once, as that of a fast network does."""
    return InBackground(group.begin(verb, None, results, tensors, **about), tensors, about.get("op", "SUM"))
