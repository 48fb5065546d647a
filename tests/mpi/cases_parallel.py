"""Tensor parallelism and the ZeRO optimiser."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP

from .models import batch, loss_of, network, same_parameters, serial
from .table import case
from .world import close, equal


class Block(nn.Module):
    """Two layers, the width divisible by 2, 3 and 4."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.up, self.down = nn.Linear(12, 24).double(), nn.Linear(24, 12).double()

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


@case(deadline=120)
def columns_then_rows_equal_the_whole_layer(w):
    mesh = init_device_mesh("cpu", (w.size,))
    x = w.data(0, 5, 12, dtype=torch.float64)
    reference, model = Block(), Block()
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    close(model(x), reference(x))
    model(x).square().sum().backward()
    reference(x).square().sum().backward()
    close(model.up.weight.grad.full_tensor(), reference.up.weight.grad)
    close(model.down.weight.grad.full_tensor(), reference.down.weight.grad)


@case(deadline=120)
def sequence_parallel_norm(w):
    mesh = init_device_mesh("cpu", (w.size,))
    norm, reference = nn.LayerNorm(12).double(), nn.LayerNorm(12).double()
    parallelize_module(norm, mesh, SequenceParallel(sequence_dim=0))
    x = w.data(0, 12, 12, dtype=torch.float64)
    from torch.distributed.tensor import distribute_tensor

    out = norm(distribute_tensor(x, mesh, [Shard(0)]))
    close(out.full_tensor(), reference(x))


@case(deadline=120)
def a_loss_over_sharded_classes(w):
    from torch.distributed.tensor import distribute_tensor

    mesh = init_device_mesh("cpu", (w.size,))
    scores = w.data(0, 6, 12)
    target = torch.arange(6)
    shards = distribute_tensor(scores, mesh, [Shard(1)]).requires_grad_()
    expected = nn.functional.cross_entropy(scores, target)
    with loss_parallel():
        loss = nn.functional.cross_entropy(shards, target)
        loss.backward()
    close(loss.full_tensor().detach(), expected)


@case(sizes=(4,), deadline=120)
def tensor_and_data_parallel_together(w):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model, reference = Block(), Block()
    parallelize_module(model, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=mesh["data"])
    replica = mesh["data"].get_local_rank()
    model(w.data(replica, 5, 12, dtype=torch.float64)).sum().backward()
    for r in (0, 1):
        (reference(w.data(r, 5, 12, dtype=torch.float64)).sum() / 2).backward()
    close(model.up.weight.grad.full_tensor(), reference.up.weight.grad)


@case(deadline=120)
def zero_shards_the_optimiser_and_changes_nothing(w):
    model = DDP(network(w))
    optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    for step in range(3):
        optimiser.zero_grad()
        loss_of(model, *batch(w, step, w.rank)).backward()
        optimiser.step()
    same_parameters(model, serial(w, make=torch.optim.Adam, lr=0.01))
    optimiser.consolidate_state_dict(to=0)
    if w.rank == 0:
        assert len(optimiser.state_dict()["state"]) == len(list(model.parameters()))


@case(deadline=120)
def zero_with_parameters_as_views_of_buckets(w):
    model = DDP(network(w))
    optimiser = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, parameters_as_bucket_view=True, lr=0.1
    )
    for step in range(3):
        optimiser.zero_grad()
        loss_of(model, *batch(w, step, w.rank)).backward()
        optimiser.step()
    same_parameters(model, serial(w, lr=0.1))
    first = next(model.parameters()).detach().clone()
    dist.broadcast(first, 0)
    equal(next(model.parameters()).detach(), first)
