import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("mpi")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
plain = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
plain.load_state_dict(model.state_dict())

for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)

optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
plain_optim = torch.optim.AdamW(plain.parameters(), lr=1e-2)
x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
for _ in range(3):
    for m, o in ((model, optim), (plain, plain_optim)):
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        o.zero_grad()
full = model[0].weight.full_tensor()
assert torch.allclose(full, plain[0].weight, atol=1e-5)
print(f"rank {dist.get_rank()} holds {model[0].weight.to_local().shape[0]} of {full.shape[0]} rows")
dist.barrier()
dist.destroy_process_group()
