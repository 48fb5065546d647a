import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed import destroy_process_group, get_rank, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class FeedForward(nn.Module):
    def __init__(self, dim=16, hidden=32):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


init_process_group(backend="mpi")
mesh = init_device_mesh("cpu", (4,))
torch.manual_seed(42)
model = FeedForward()
x = torch.randn(3, 16)
expected = model(x)
plan = {"w1": ColwiseParallel(), "w3": ColwiseParallel(), "w2": RowwiseParallel()}
model = parallelize_module(model, mesh, plan)
out = model(x)
assert torch.allclose(out, expected, atol=1e-5)
out.sum().backward()
assert model.w1.weight.grad.to_local().shape == (8, 16)
if get_rank() == 0:
    print("tensor parallel output matches")
destroy_process_group()
