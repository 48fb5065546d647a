import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
accumulate = 4

torch.manual_seed(0)
reference = nn.Linear(8, 1)
net = DistributedDataParallel(nn.Linear(8, 1))
net.module.load_state_dict(reference.state_dict())

torch.manual_seed(1)
data = torch.randn(size, accumulate, 16, 8)
for step in range(accumulate):
    last = step == accumulate - 1
    with contextlib.nullcontext() if last else net.no_sync():
        (net(data[rank, step]).pow(2).mean() / accumulate).backward()

for r in range(size):
    for step in range(accumulate):
        (reference(data[r, step]).pow(2).mean() / accumulate / size).backward()
assert torch.allclose(net.module.weight.grad, reference.weight.grad, atol=1e-6)
if rank == 0:
    print("accumulated gradients agree")
dist.destroy_process_group()
