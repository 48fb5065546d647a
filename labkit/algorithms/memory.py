"""How many bytes of tensors are alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Memory(TorchDispatchMode):
    """Counts the bytes of tensors that operations make, while they live; those of `given` are not new.

    Tensors that share memory count once. `now` and `peak` are in bytes; set `peak = now` to begin anew. What
    was made inside the `with` counts until it is gone, what is made after it does not count. Lesson 18
    measures with it.

    >>> with Memory() as memory:
    ...     kept = torch.zeros(100)
    ...     total = (kept + 1).sum()
    >>> memory.now, memory.peak  # 400 bytes of `kept`, 4 of `total`; at the peak 400 of the sum, too
    (404, 804)
    """

    def __init__(self, given: Iterable[object] = ()) -> None:
        super().__init__()
        self.peak = self.now = 0
        self._known = {t.untyped_storage()._cdata for t in tree_iter(given) if torch.is_tensor(t)}

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if torch.is_tensor(tensor):
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
