"""Checked mode: what is asynchronous is watched from its call to its `wait`.

Until then nobody may change what it reads, nor use what it writes; and somebody has to wait. Only what the
user's own line calls is watched: torch knows what it does.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from inspect import unwrap
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import typing_extensions
from torch.utils._pytree import tree_iter

from labkit.mpi import torch_internals
from labkit.mpi.call import Call
from labkit.mpi.errors import HazardError
from labkit.mpi.hazards.in_flight import Flight
from labkit.mpi.record.position import OWN, is_machinery, position
from labkit.mpi.wire.buffers import memory

if TYPE_CHECKING:
    from labkit.mpi.work import Work

_PAGE, _PAGES = 4096, 8
_ROOT_GIVES = {"broadcast": True, "reduce": False}
_BLOCKING = [unwrap(verb).__code__ for verb in (dist.send, dist.recv)]
_BENEATH = OWN, *torch_internals.FRAMES, typing_extensions.__file__

# Watches of which nobody has seen the end, in the order of their calls.
_open: dict[int, weakref.ref[Watch]] = {}
_dropped: list[Call] = []
_MOST = 1000  # that are told: a program that drops them by the million is told of these


class Watch:
    """One asynchronous call until it is waited for; its Work has it."""

    def __init__(self, call: Call, reads: Sequence[torch.Tensor], writes: Sequence[torch.Tensor]) -> None:
        self.call = call
        self.reads = [_Given(tensor) for tensor in reads if tensor.is_cpu and tensor.is_contiguous()]
        self.flight = Flight(call, writes) if writes else None
        _open[id(self)] = weakref.ref(self)

    def end(self) -> None:
        """Somebody has waited, or need not any more."""
        _open.pop(id(self), None)
        if self.flight is not None:
            self.flight.land()

    def check(self) -> None:
        """HazardError if what the operation reads is not what it was given."""
        if not any([given.is_changed() for given in self.reads]):
            return
        here = position()
        file, line = here.place if here else (None, 0)
        raise HazardError(
            self.call.told(),
            f"a tensor that it reads was changed before wait() in {file}, line {line}",
            "change it after wait(), or hand over a copy: until then others get the old numbers or the new",
        )

    def __del__(self) -> None:
        if id(self) in _open:
            self.drop()

    def drop(self) -> None:
        """Nobody will wait any more."""
        self.end()
        if len(_dropped) < _MOST:
            _dropped.append(self.call)


class _Given:
    """A tensor as it was: bytes of it, and how often torch had written to its memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.sample, self.version = tensor, _sample(tensor), _version(tensor)

    def is_changed(self) -> bool:
        return _sample(self.tensor) != self.sample or _version(self.tensor) != self.version


def _version(tensor: torch.Tensor) -> int:
    """0 where it would not tell: part of some memory is as it was if another part of it is written."""
    whole = tensor.nbytes == tensor.untyped_storage().nbytes() and not tensor.is_inference()
    return tensor._version if whole else 0


def watch(work: Work, reads: Sequence[torch.Tensor], writes: Sequence[Any]) -> None:
    """Watch an asynchronous call, if it is the user's: one that is not waited for at once by torch."""
    caller = calls_asynchronously(sys._getframe(1))
    if caller is not None and is_machinery(caller):
        work.call.by_torch = True
    elif caller is not None:
        if work.call.layout:  # a sparse tensor has no memory of its own to look at
            reads = writes = []
        written = [] if only_gives(work.call, work.group.world.rank) else list(tree_iter(writes))
        memories = {tensor.untyped_storage().data_ptr() for tensor in written}
        read = [tensor for tensor in reads if tensor.untyped_storage().data_ptr() not in memories]
        work.watch = Watch(work.call, read, written)


def calls_asynchronously(frame: FrameType | None) -> FrameType | None:
    """The frame above a verb's own that called it; None if the verb itself waits."""
    while frame is not None and frame.f_code.co_filename.startswith(_BENEATH):
        frame = None if frame.f_code in _BLOCKING else frame.f_back
    return frame


def cannot_be_waited_for(frame: FrameType) -> bool:
    """Whether torch's code that called asynchronously lets go of the Work, and yet reads the result."""
    caller = calls_asynchronously(frame)
    return caller is not None and caller.f_code in torch_internals.NEVER_WAITS


def only_gives(call: Call, rank: int) -> bool:
    """Whether what are results elsewhere are not written on this rank."""
    return call.verb == "send" or (call.verb in _ROOT_GIVES and (rank == call.root) == _ROOT_GIVES[call.verb])


def dropped() -> list[Call]:
    """The calls for which nobody has waited; from now on nobody need."""
    for ref in list(_open.values()):
        found = ref()
        if found is not None:
            found.drop()
    told = _dropped.copy()
    _dropped.clear()
    return told


def _sample(tensor: torch.Tensor) -> bytes:
    """All of its bytes, or those of some pages of it, the first and the last among them."""
    whole = memoryview(memory(tensor))  # type: ignore[arg-type]
    if whole.nbytes <= _PAGE * _PAGES:
        return whole.tobytes()
    apart = (whole.nbytes - _PAGE) / (_PAGES - 1)
    return b"".join([whole[int(n * apart) : int(n * apart) + _PAGE].tobytes() for n in range(_PAGES)])
