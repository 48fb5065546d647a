"""Distributed checkpoint: what was saved by all is what all read back."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from .cases_fsdp import sharded
from .models import batch, loss_of
from .table import case
from .world import equal


def shared_folder(w) -> Path:
    name = [tempfile.mkdtemp() if w.rank == 0 else None]
    dist.broadcast_object_list(name, src=0)
    return Path(name[0])


@case(deadline=120)
def a_sharded_tensor_comes_back(w):
    folder, mesh = shared_folder(w), init_device_mesh("cpu", (w.size,))
    whole = w.data(0, 7, 5)
    dcp.save({"t": distribute_tensor(whole, mesh, [Shard(0)]), "step": 3}, checkpoint_id=folder)
    state = {"t": distribute_tensor(torch.zeros(7, 5), mesh, [Shard(0)]), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    equal(state["t"].full_tensor(), whole)
    assert state["step"] == 3


@case(deadline=120)
def a_tensor_comes_back_cut_the_other_way(w):
    folder, mesh = shared_folder(w), init_device_mesh("cpu", (w.size,))
    whole = w.data(0, 6, 9)
    dcp.save({"t": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=folder)
    state = {"t": distribute_tensor(torch.zeros(6, 9), mesh, [Shard(1)])}
    dcp.load(state, checkpoint_id=folder)
    equal(state["t"].full_tensor(), whole)


@case(deadline=120)
def a_sharded_model_and_its_optimiser_come_back(w):
    folder = shared_folder(w)

    def build():
        model = sharded(w, mesh=init_device_mesh("cpu", (w.size,)))
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    def step(model, optimiser, i):
        optimiser.zero_grad()
        loss_of(model, *batch(w, i, w.rank)).backward()
        optimiser.step()

    model, optimiser = build()
    step(model, optimiser, 0)
    saved = dict(zip(("model", "optimiser"), get_state_dict(model, optimiser), strict=True))
    dcp.save(saved, checkpoint_id=folder)
    other, its_optimiser = build()
    step(other, its_optimiser, 1)
    state = dict(zip(("model", "optimiser"), get_state_dict(other, its_optimiser), strict=True))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(other, its_optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"])
    step(model, optimiser, 2)
    step(other, its_optimiser, 2)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        equal(a.to_local().detach(), b.to_local().detach())
