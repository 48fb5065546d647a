"""Tensors that an operation under way writes into: who uses one before `wait` is told.

What is in such a tensor is a matter of luck, and no message tells of it. So in checked mode its class is
another one until its operation was waited for. That sees what torch is asked to do with the tensor itself,
and with views of it that were made meanwhile; not what goes by older views, or by arrays of NumPy's.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_iter

from labkit.mpi.errors import HazardError
from labkit.mpi.record.position import OWN, position

if TYPE_CHECKING:
    from labkit.mpi.call import Call

_ABOUT = frozenset((
    "size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset", "element_size", "type",
    "is_contiguous", "is_floating_point", "is_complex", "is_inference", "is_conj", "is_neg", "data_ptr",
    "untyped_storage", "get_device", "register_hook", "__len__", "__hash__", "__get__", "__set__",
))  # fmt: skip
"""What asks for no number. Python calls attributes, as `x.shape`, by `__get__`."""
_VIEWS = frozenset((
    "__getitem__", "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze", "detach", "narrow",
    "select", "t", "transpose", "permute", "chunk", "split", "tensor_split", "unbind", "expand", "__iter__",
))  # fmt: skip


class InFlight(torch.Tensor):
    """A tensor while an operation writes into it. `flight` is that one's."""

    flight: Flight

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """What torch calls in place of `function`."""
        ours = sys._getframe(1).f_code.co_filename.startswith(OWN)
        name = function.__name__
        with torch._C.DisableTorchFunctionSubclass():
            if ours or name in _ABOUT | _VIEWS:
                result = function(*args, **(kwargs or {}))
                if ours or args[0].flight.follow(args[0], result, name in _VIEWS):
                    return result
        used = next(x for x in tree_iter((args, kwargs)) if isinstance(x, InFlight))
        raise used.flight.used()


class Flight:
    """The tensors that one operation writes into, from its call to its `wait`."""

    def __init__(self, call: Call, tensors: Iterable[torch.Tensor]) -> None:
        self.call = call
        self.tensors: list[weakref.ref[torch.Tensor]] = []
        for tensor in tensors:
            if type(tensor) is torch.Tensor:
                self._mark(tensor)

    def _mark(self, tensor: torch.Tensor) -> None:
        self.tensors.append(weakref.ref(tensor))
        tensor.flight = self  # type: ignore[attr-defined]
        tensor.__class__ = InFlight

    def follow(self, tensor: torch.Tensor, result: Any, views: bool) -> bool:
        """Mark tensors of the same memory. False if a view was asked for and it is a copy, which was read."""
        memory = tensor.untyped_storage().data_ptr()
        for found in tree_iter(result):
            if isinstance(found, torch.Tensor) and found is not tensor:
                if views and found.untyped_storage().data_ptr() != memory:
                    return False
                if type(found) is torch.Tensor:
                    self._mark(found)
        return True

    def land(self) -> None:
        """Let the tensors be used: the operation was waited for, or was ended."""
        for tensor in self._alive():
            tensor.__class__ = torch.Tensor
            del tensor.flight  # type: ignore[attr-defined]
        self.tensors.clear()

    def _alive(self) -> Iterator[torch.Tensor]:
        return (tensor for tensor in (ref() for ref in self.tensors) if tensor is not None)

    def used(self) -> HazardError:
        """What is told to who uses one of them."""
        here = position()
        file, line = here.place if here else (None, 0)
        return HazardError(
            self.call.told(),
            f"a tensor that it writes is used before wait(), in {file}, line {line}",
            "call wait() on what it returned first: until then its numbers are a matter of luck",
        )
