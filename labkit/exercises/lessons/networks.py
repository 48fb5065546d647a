"""Networks for exercises: drawn from a generator of the check, and what a backward pass left in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labkit.exercises.lazy_torch import torch


class Tensors(list):
    """A list that remembers its tensors: whoever puts others in their place has not changed those."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.own = tuple(self)


def linear(generator: torch.Generator, inputs: int, outputs: int, **options: Any) -> torch.nn.Linear:
    """A Linear layer whose parameters are normal numbers of the generator; torch's seed stays untouched."""
    layer = torch.nn.utils.skip_init(torch.nn.Linear, inputs, outputs, **options)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return layer


def gradient(module: torch.nn.Module) -> torch.Tensor | str:
    """What the module's parameters hold, in one vector, zeros for a frozen one; words if one lacks it."""
    parameters = list(module.parameters())
    if any(p.grad is None and p.requires_grad for p in parameters):
        return "a parameter without gradient"
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def rows_of(whole: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """A copy of the rows that a rank keeps of a tensor."""
    return whole.chunk(size)[rank].clone()
