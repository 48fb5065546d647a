"""FSDP 1 and 2: sharded parameters, the training of the whole."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from .cases_ddp import train
from .models import batch, loss_of, network, same_parameters, serial
from .table import case
from .world import close


def compare_summoned(model, reference):
    with FullyShardedDataParallel.summon_full_params(model):
        same_parameters(model, reference)


@case(deadline=120)
def fsdp1_equals_serial_training(w):
    policy = ModuleWrapPolicy({torch.nn.Linear})
    model = FullyShardedDataParallel(network(w), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    compare_summoned(train(w, model), serial(w, lr=0.1))


@case(deadline=120)
def fsdp1_with_gradients_sharded_only(w):
    model = FullyShardedDataParallel(
        network(w), sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, device_id=torch.device("cpu")
    )
    compare_summoned(train(w, model), serial(w, lr=0.1))


def sharded(w, **options):
    model = network(w)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, **options)
    return fully_shard(model, **options)


@case(deadline=120)
def fsdp2_equals_serial_training(w):
    mesh = init_device_mesh("cpu", (w.size,))
    model = train(w, sharded(w, mesh=mesh))
    for found, expected in zip(model.parameters(), serial(w, lr=0.1).parameters(), strict=True):
        close(found.full_tensor().detach(), expected.detach(), rtol=1e-9, atol=1e-10)


@case(deadline=120, gloo=False)
def fsdp2_in_bfloat16_reduces_in_float32(w):
    """Held against the same arithmetic without shards: a ReLU near zero can differ in bfloat16."""
    mesh = init_device_mesh("cpu", (w.size,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(w, mesh=mesh, mp_policy=policy)
    x, y = batch(w, 0, w.rank)
    loss_of(model, x, y.bfloat16()).backward()
    references = [network(w).bfloat16() for _ in range(w.size)]
    for r, reference in enumerate(references):
        x, y = batch(w, 0, r)
        loss_of(reference, x.bfloat16(), y.bfloat16()).backward()
    for found, *expected in zip(model.parameters(), *(r.parameters() for r in references), strict=True):
        mean = torch.stack([p.grad.float() for p in expected]).mean(0)
        close(found.grad.full_tensor(), mean.double(), rtol=1e-6, atol=1e-7)


@case(sizes=(4,), deadline=120)
def fsdp2_over_two_dimensions_replicates_and_shards(w):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = train(w, sharded(w, mesh=mesh))
    for found, expected in zip(model.parameters(), serial(w, lr=0.1).parameters(), strict=True):
        close(found.full_tensor().detach(), expected.detach(), rtol=1e-9, atol=1e-10)


@case(deadline=120)
def fsdp2_accumulates_gradients(w):
    model = sharded(w, mesh=init_device_mesh("cpu", (w.size,)))
    reference = network(w)
    model.set_requires_gradient_sync(False)
    loss_of(model, *batch(w, 0, w.rank)).backward()
    model.set_requires_gradient_sync(True)
    loss_of(model, *batch(w, 1, w.rank)).backward()
    for r in range(w.size):
        for step in (0, 1):
            (loss_of(reference, *batch(w, step, r)) / w.size).backward()
    for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
        close(found.grad.full_tensor(), expected.grad)
    dist.barrier()
