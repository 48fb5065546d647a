"""Types as strings, and a program that looks at its own source."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass, fields

import torch
import torch.distributed as dist

Vector = typing.Annotated[torch.Tensor, "one dimension"]


@dataclass(slots=True)
class Batch:
    x: Vector
    weight: float | None = None
    origin: Batch | None = None


def weighted(batch: Batch, *, scale: float = 1.0) -> Vector:
    """Scale a batch."""
    return batch.x * (batch.weight or 1.0) * scale


dist.init_process_group("mpi")
assert [f.type for f in fields(Batch)][1] == "float | None"
hints = typing.get_type_hints(weighted)
assert hints["batch"] is Batch and hints["scale"] is float
source = inspect.getsource(weighted)
assert source.splitlines()[1].strip() == '"""Scale a batch."""'
assert str(inspect.signature(weighted)).startswith("(batch")
b = Batch(torch.ones(3), 2.0, Batch(torch.zeros(1)))
match b:
    case Batch(weight=float(w), origin=Batch()):
        y = weighted(b, scale=w)
dist.all_reduce(y)
assert y.tolist() == [4.0 * dist.get_world_size()] * 3
print("looked at itself")
