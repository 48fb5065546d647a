"""Tensor parallelism: each rank has a part of each layer, and a block ends in a sum over ranks. Lesson 16.

M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
arXiv 1909.08053, section 3.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


class CopyToRanks(torch.autograd.Function):
    """The beginning of a split block: forward x as it is, backward the sum of the ranks' gradients of x.

    `CopyToRanks.apply(x)`, with the same x on every rank. Megatron's f. Built in lesson 16.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total


class SumOverRanks(torch.autograd.Function):
    """The end of a split block: forward the sum of the ranks' parts, backward the gradient as it is.

    `SumOverRanks.apply(part)`; the same sum on every rank. Megatron's g. Built in lesson 16.
    """

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor) -> torch.Tensor:
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


def part_of(layer: torch.nn.Module, dim: int) -> torch.nn.Module:
    """This rank's part of a Linear or convolution: a copy with some of the outputs (0) or inputs (1).

    With dim 1 it has no bias, or the sum over ranks would have it once for each of them. Built in lesson 16.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    part = copy.deepcopy(layer)
    weight = layer.weight.detach().tensor_split(world_size, dim)[rank]
    part.weight, part.bias = torch.nn.Parameter(weight.clone()), None
    if dim == 0:
        bias = layer.bias.detach().tensor_split(world_size)[rank]
        part.bias = torch.nn.Parameter(bias.clone())
    return part


class TensorParallel(torch.nn.Module):
    """A block of which each rank has a part: layers `columns` by outputs, the last one, `rows`, by inputs.

    Between them may be anything that treats each output of `columns` alone: an activation, a head of
    attention. `TensorParallel(mlp, ["up"], "down")`. Forward and backward are one all-reduce each; input and
    output are whole, the same on every rank. A collective. Built in lesson 16.
    """

    def __init__(self, block: torch.nn.Module, columns: Sequence[str], rows: str):
        super().__init__()
        self.part, last = copy.deepcopy(block), getattr(block, rows)
        for name in columns:
            setattr(self.part, name, part_of(getattr(block, name), 0))
        setattr(self.part, rows, part_of(last, 1))
        ones = [1] * (last.weight.dim() - 2)  # the pixels of a convolution
        self.bias = torch.nn.Parameter(last.bias.detach().clone().view(-1, *ones))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SumOverRanks.apply(self.part(CopyToRanks.apply(x))) + self.bias
