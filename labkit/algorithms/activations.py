"""How many bytes autograd stores for the backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch.autograd.graph import saved_tensors_hooks


class Activations(saved_tensors_hooks):
    """Counts the bytes of tensors that are stored for a backward pass, while they are.

    Only what is computed inside the `with` counts, until its graph is gone; tensors that share memory count
    once, the module's parameters not at all. `now` and `peak` are in bytes. Lesson 17 measures with it.

    After a forward pass `now` is what `kept_for_backward` of lesson 15 returns. Only of a
    view both differ: here its own bytes count, there all of the memory that it keeps.

    >>> layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    >>> with Activations(layer) as stored:
    ...     output = layer(torch.ones(2, 4))
    >>> stored.now  # the input, and what tanh gave: 8 numbers each
    64
    """

    def __init__(self, module: torch.nn.Module):
        super().__init__(lambda tensor: _Stored(tensor, self._add), lambda stored: stored.tensor)
        self.now = self.peak = 0
        self._parameters = {p.data_ptr() for p in module.parameters()}
        self._uses: Counter[int] = Counter()

    def __enter__(self) -> Activations:
        super().__enter__()
        return self

    def _add(self, tensor: torch.Tensor, change: int) -> None:
        place = tensor.data_ptr()
        if place in self._parameters:
            return
        before = self._uses[place]
        self._uses[place] += change
        self.now += tensor.nbytes * ((before + change > 0) - (before > 0))
        self.peak = max(self.peak, self.now)


class _Stored:
    """In the graph in place of a tensor, so that its end is noticed."""

    def __init__(self, tensor: torch.Tensor, add: Callable[[torch.Tensor, int], None]):
        self.tensor, self._add = tensor, add
        add(tensor, 1)

    def __del__(self) -> None:
        self._add(self.tensor, -1)
