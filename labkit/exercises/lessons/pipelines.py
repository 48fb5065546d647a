"""Pipelines drawn for a check: stages, micro-batches and their loss; and the gradients of the whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient, linear

if TYPE_CHECKING:
    Batches = list[tuple[torch.Tensor, torch.Tensor]]
    Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    Pipeline = tuple[list[torch.nn.Sequential], Batches, Loss]

WIDTH = 5
"""Numbers in an activation of one sample."""


def pipeline(
    generator: torch.Generator, stages: int, microbatches: int, layers: int = 1, samples: int = 3
) -> Pipeline:
    """Stages, micro-batches and their loss, the same on every rank."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def layer() -> tuple[torch.nn.Module, ...]:
        made = linear(generator, WIDTH, WIDTH, bias=False, dtype=torch.float64)
        # Orthogonal: what goes in is still felt behind many layers.
        made.weight.data = torch.linalg.qr(made.weight.data).Q
        return made, torch.nn.LeakyReLU(0.8)

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (output - y).square().mean() / microbatches

    made = [torch.nn.Sequential(*sum((layer() for _ in range(layers)), ())) for _ in range(stages)]
    return made, list(zip(*draw(2, microbatches, samples, WIDTH), strict=True)), loss


def gradients(made: list[torch.nn.Sequential], batches: Batches, loss: Loss) -> list[torch.Tensor]:
    """Of the whole network, stage by stage."""
    made = copy.deepcopy(made)
    for x, y in batches:
        loss(torch.nn.Sequential(*made)(x), y).backward()
    return [gradient(stage) for stage in made]
