import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def example(use_zero):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(20, 20) for _ in range(6)])
    ddp_model = DDP(model)
    loss_fn = nn.MSELoss()
    if use_zero:
        optimizer = ZeroRedundancyOptimizer(ddp_model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    else:
        optimizer = torch.optim.Adam(ddp_model.parameters(), lr=0.01)
    outputs = ddp_model(torch.randn(20, 20))
    loss_fn(outputs, torch.randn(20, 20)).backward()
    optimizer.step()
    return sum(sum(p).sum().item() for p in model.parameters()), len(optimizer.state)


dist.init_process_group("mpi")
with_zero, without = example(True), example(False)
assert abs(with_zero[0] - without[0]) < 1e-4
print(f"params sum to {with_zero[0]:.3f}")
dist.barrier()
dist.destroy_process_group()
