import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard


class AppState(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optim = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optim}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
        )


dist.init_process_group("mpi")
folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
dist.broadcast_object_list(folder)

model = fully_shard(nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model(torch.rand(4, 8)).sum().backward()
optimizer.step()
dcp.save({"app": AppState(model, optimizer)}, checkpoint_id=folder[0])
before = model.weight.full_tensor().clone()

torch.manual_seed(1)
fresh = fully_shard(nn.Linear(8, 8))
again = torch.optim.Adam(fresh.parameters(), lr=0.1)
dcp.load({"app": AppState(fresh, again)}, checkpoint_id=folder[0])
assert torch.equal(fresh.weight.full_tensor(), before)
dist.barrier()
if dist.get_rank() == 0:
    shutil.rmtree(folder[0])
    print("restored")
dist.destroy_process_group()
