"""Meshes of four ranks on which a check tries a function: two by two, and all ranks along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

AXES = "data", "tensor"
SHAPES = (2, 2), (4, 1), (1, 4)
RANKS = 4


def along(axis: str, rank: int, shape: tuple[int, int]) -> list[int]:
    """The ranks that this one shares an axis with, itself among them."""
    row, column = divmod(rank, shape[1])
    return [r for r in range(RANKS) if (r % shape[1] == column if axis == "data" else r // shape[1] == row)]


def on_each(function: Any, *arguments: Sequence) -> list | None:
    """What it returns for the arguments of each shape, and the mesh; None if it returns nothing there."""
    import torch.distributed as dist

    found = [
        function(*given, _mesh(dist.group.WORLD, shape))
        for *given, shape in zip(*arguments, SHAPES, strict=True)
    ]
    return None if any(value is None for value in found) else found


@cache
def _mesh(world: dist.ProcessGroup, shape: tuple[int, int]) -> DeviceMesh:
    """Made once for a world: each has groups of its own."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=AXES)
