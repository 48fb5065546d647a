"""Training by torch's own means, over gloo and over "mpi": more rows of `cases_as_gloo`."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

from .cases_as_gloo import row
from .world import World


def _trained(
    model: nn.Module, w: World, by: torch.optim.Optimizer | None = None, steps: int = 3
) -> list[torch.Tensor]:
    by = by or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        by.zero_grad()
        model(w.data(w.rank, 4, 6, salt=step)).pow(2).mean().backward()
        by.step()
    return [p.detach().clone() for p in model.parameters()]


def _net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def _rounded(how: object) -> float:
    """By how much weights may differ where gradients are summed in half precision, in any order of the ranks.

    bfloat16 keeps 8 bits, so each of the two additions over three ranks may be off by 2**-8 of what the
    gradients' sizes sum to, in either backend; and that in three steps, times the rate of 0.1. No gradient
    here is larger than 1. In 150 draws of the data, two orders made weights differ by 3e-4 at most.
    """
    half = "mixed_precision" in how if isinstance(how, dict) else "16" in how.name
    return 3 * 0.1 * 4 * 2**-8 if half else 1e-4


@row([
    {}, {"bucket_cap_mb": 1e-4}, {"gradient_as_bucket_view": True}, {"static_graph": True},
    {"find_unused_parameters": True}, {"broadcast_buffers": False}, {"init_sync": False},
    {"mixed_precision": True},
], deadline=120, within=_rounded)  # fmt: skip
def ddp(w, group, options):
    model, options = _net(), dict(options)
    if options.pop("mixed_precision", False):
        options["mixed_precision"] = MixedPrecision(torch.bfloat16, torch.bfloat16)
    return _trained(DDP(model, process_group=group, **options), w)


# Those that fail on the CPU, in the middle of a backward pass, come last: nothing waits for what they began.
@row(sorted(DDPCommHookType, key=lambda hook: "QUANTIZE" in hook.name), deadline=120, within=_rounded)
def ddp_hooks(w, group, hook):
    model = DDP(_net(), process_group=group)
    register_ddp_comm_hook(hook, model, group)
    torch.manual_seed(3)
    return _trained(model, w)


@row([True, False])
def ddp_of_sparse_embeddings(w, group, static):
    torch.manual_seed(1)
    model = DDP(
        nn.Sequential(nn.Embedding(7, 3, sparse=True), nn.Linear(3, 1)),
        process_group=group,
        static_graph=static,
    )
    by = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        by.zero_grad()
        model(torch.tensor([w.rank, w.rank + step, 6])).sum().backward()
        by.step()
    return [p.detach() for p in model.parameters()], model.module[0].weight.grad


@row()
def ddp_of_bags_of_embeddings(w, group):
    torch.manual_seed(1)
    model = DDP(
        nn.EmbeddingBag(9, 3, sparse=True, mode="sum"), process_group=group, find_unused_parameters=True
    )
    model(torch.tensor([[w.rank, 2, 2]])).sum().backward()
    return model.module.weight.grad


@row()
def ddp_of_batch_norms(w, group):
    torch.manual_seed(1)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), group)
    return _trained(DDP(model, process_group=group), w)


@row()
def join(w, group):
    model = DDP(_net(), process_group=group)
    by = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model]):
        for step in range(w.rank + 1):
            by.zero_grad()
            model(w.data(w.rank, 4, 6, salt=step)).pow(2).mean().backward()
            by.step()
    return [p.detach() for p in model.parameters()]


@row([False, True])
def zero_redundancy(w, group, view):
    model = _net()
    by = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, group, parameters_as_bucket_view=view, lr=0.1
    )
    found = _trained(DDP(model, process_group=group), w, by)
    by.consolidate_state_dict(0)
    return found, len(by.state_dict()["state"]) if w.rank == 0 else None


@row()
def post_local_sgd(w, group):
    model = DDP(_net(), process_group=group)
    model.register_comm_hook(
        hook.PostLocalSGDState(group, group, start_localSGD_iter=1), hook.post_localSGD_hook
    )
    by = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        averagers.PeriodicModelAverager(period=2, warmup_steps=1, process_group=group),
    )
    return _trained(model, w, by, steps=5)


@row(["wrapped", "sharded"], deadline=120)
def fsdp(w, group, kind):
    model = _net()
    if kind == "wrapped":
        model = FullyShardedDataParallel(model, group, device_id=torch.device("cpu"), use_orig_params=True)
    else:
        fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
    found = _trained(model, w)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    full = getattr(norm, "full_tensor", lambda: norm)()
    return full, [getattr(p, "full_tensor", lambda p=p: p)() for p in found]


@row(deadline=120)
def meshes_and_tensors(w, group):
    mesh = DeviceMesh.from_group(group, "cpu")
    x = distribute_tensor(w.data(0, 7, 4), mesh, [Shard(0)])
    y = x.redistribute(mesh, [Replicate()]).to_local()
    z = x.redistribute(mesh, [Shard(1)])
    total = x.sum().full_tensor()
    p = DTensor.from_local(w.mine(6, 2), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
    return y, z.full_tensor(), total, p.full_tensor(), mesh.get_local_rank(), mesh.size()


@row(["save", "async_save", "async_save on its own group"], deadline=120)
def checkpoints(w, group, how):
    name = [tempfile.mkdtemp(dir=w.folder) if w.rank == 0 else None]
    dist.broadcast_object_list(name, 0, group=group)
    state, pg = {"a": w.data(0, 5), "n": 3}, group
    if how == "save":
        dcp.save(state, checkpoint_id=name[0], process_group=group)
    else:
        if "own" in how:
            pg = dist.new_group(backend=dist.get_backend(group))
        dcp.async_save(state, checkpoint_id=name[0], process_group=pg).result(timeout=30)
    back = {"a": torch.zeros(5), "n": 0}
    dcp.load(back, checkpoint_id=name[0], process_group=group)
    return back, sorted(p.name for p in Path(name[0]).iterdir())
