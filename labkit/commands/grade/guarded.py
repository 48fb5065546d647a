"""What ranks tell the process that judges, taken as data: no object of theirs runs code there.

Answers run on the ranks, and can put anything into what ranks send. ipyparallel takes it apart with pickle,
which calls whatever it is told to call: here that is what tensors and labkit's own records are made of, and
nothing else.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ipyparallel.serialize import canning, serialize
from ipyparallel.serialize.canning import CannedObject

from labkit.exercises.lazy_torch import torch

_RECORDS = {
    ("labkit", "LabError"),
    ("labkit.exercises.measure", "Run"),
    *(("labkit.trace.records", name) for name in ("Moment", "Place", "Operation", "Offset", "Recording")),
    *(("labkit.rank.protocol", name) for name in ("Leftover", "State", "Called", "Asked", "Remembered")),
}
_TENSORS = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    *(("torch._utils", f"_rebuild_{name}") for name in ("tensor_v2", "parameter", "sparse_tensor")),
    ("torch.serialization", "_get_layout"),
}
_VALUE = ("labkit.rank.values", "Value")
_NUMBERS = {("builtins", name) for name in ("complex", "set", "frozenset", "bytearray")}
_STORAGE = ("torch.storage", "_load_from_bytes")


class _Carried(CannedObject):
    """In place of `labkit.rank.values.Value`, whose own reading would run what a cell has defined."""

    refuse: Callable[[str], None]

    def get_object(self, names: dict[str, Any] | None = None) -> Any:
        first, *arrays = (bytearray(buffer) for buffer in self.buffers)  # arrays that can be written to
        return _Guarded(type(self).refuse).loads(bytes(first), arrays)


class _Data(pickle.Unpickler):
    """Reads what may come from a rank."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == _VALUE:
            return _Carried
        if (module, name) == _STORAGE:  # torch's own takes any pickle
            return _storage
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) in _RECORDS | _TENSORS | _NUMBERS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("something outside")


def _storage(kept: bytes) -> Any:
    return torch.load(io.BytesIO(kept), weights_only=True)


class _Guarded:
    """As much of the module pickle as ipyparallel uses."""

    dumps = staticmethod(pickle.dumps)

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse = refuse

    def loads(self, told: bytes, buffers: Sequence[Any] = ()) -> Any:
        try:
            return _Data(io.BytesIO(told), buffers=buffers).load()
        except Exception as error:  # bytes that are no pickle end in almost any exception
            self._refuse(str(error))
            raise


def guard(refuse: Callable[[str], None]) -> None:
    """From here on; `refuse` is told what a rank wanted to run."""
    _Carried.refuse = staticmethod(refuse)  # type: ignore[assignment]
    serialize.pickle = canning.pickle = _Guarded(refuse)  # type: ignore[assignment]  # for all of this process
