"""On a rank, while an exercise is checked: the bytes that its function holds, in tensors and outside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from labkit.algorithms.memory import Memory
from labkit.mpi.record.position import is_machinery

EXITS = ("numpy", "tolist", "__array__", "__dlpack__", "__reduce_ex__")
"""What gives the numbers of a tensor to something that is none: an array, a list, a pickle."""


class Held(Memory):
    """Measures the memory of a checked function; what it copies out of torch, as to numpy, counts to the end.

    How long such a copy lives is not known. `tracemalloc` would tell, and makes a first import of
    torch.compile take four times as long, which is beyond a check's deadline.
    """

    def __enter__(self) -> Any:
        self._kept = {name: vars(torch.Tensor).get(name) for name in EXITS}
        for name in EXITS:
            setattr(torch.Tensor, name, self._counting(getattr(torch.Tensor, name)))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for name, own in self._kept.items():
            if own is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, own)

    def _counting(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        def leaving(tensor: torch.Tensor, *given: Any, **named: Any) -> Any:
            left = leave(tensor, *given, **named)
            if not is_machinery(sys._getframe(1)):
                self.now += tensor.nbytes
                self.peak = max(self.peak, self.now)
            return left

        return leaving
