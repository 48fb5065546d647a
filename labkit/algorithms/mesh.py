"""Data and tensor parallelism at once, on a device mesh: each sum goes along one of its axes. Lesson 19.

N. Shazeer et al., "Mesh-TensorFlow: Deep Learning for Supercomputers", arXiv 1811.02084.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import Linear, Parameter
from torch.nn.functional import linear, relu

Link = tuple[float, float]
"""Seconds a message, and seconds a byte."""


def summed(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """The sum of the group's tensors, as a new one. Built in lesson 19."""
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total


class SumOneWay(torch.autograd.Function):
    """Megatron's f and g over one axis: one adds up the gradient of x, the other x itself.

    `SumOneWay.apply(x, group, "backward")` is f, with the same x on every rank of the group; "forward" is g,
    with the same sum on every rank. Built in lesson 19.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup, way: str) -> torch.Tensor:
        ctx.group, ctx.way = group, way
        return summed(x, group) if way == "forward" else x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return (summed(grad, ctx.group) if ctx.way == "backward" else grad), None, None


class SplitBlock(torch.nn.Module):
    """x + down(relu(up(x))), of whose two layers each rank has its part along the mesh's axis "tensor".

    A collective of that axis. Built in lesson 19.
    """

    def __init__(self, up: Linear, down: Linear, mesh: DeviceMesh):
        super().__init__()
        self.axis = mesh.get_group("tensor")
        ranks, place = mesh["tensor"].size(), mesh.get_local_rank("tensor")

        def cut(whole: torch.Tensor, dim: int) -> Parameter:
            return Parameter(whole.detach().tensor_split(ranks, dim)[place].clone())

        self.up, self.up_bias = cut(up.weight, 0), cut(up.bias, 0)
        self.down, self.bias = cut(down.weight, 1), Parameter(down.bias.data.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = SumOneWay.apply(x, self.axis, "backward")
        hidden = relu(linear(seen, self.up, self.up_bias))
        out = SumOneWay.apply(linear(hidden, self.down), self.axis, "forward")
        return x + out + self.bias


def sync_on_mesh(gradients: Sequence[torch.Tensor], mesh: DeviceMesh) -> None:
    """Make each gradient the mean over the mesh's axis "data", in place, by one all-reduce of that axis.

    Only ranks along "data" have the same part of the model. Built in lesson 19.
    """
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat, group=mesh.get_group("data"))
    flat /= mesh["data"].size()
    for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        g.copy_(mean.view_as(g))


def placement_seconds(axes: Mapping[str, tuple[int, float]], inside: str, fast: Link, slow: Link) -> float:
    """Seconds that a step's messages take, one after the other, if one axis stays inside the hosts.

    `axes` has of each axis how many messages a rank sends, and their bytes. Built in lesson 19.

    >>> placement_seconds({"data": (2, 1e6), "tensor": (30, 8e6)}, "tensor", (0, 0), (1e-3, 1e-6))
    1.002
    """
    seconds = 0.0
    for axis, (messages, size) in axes.items():
        alpha, beta = fast if axis == inside else slow
        seconds += messages * alpha + size * beta
    return seconds
