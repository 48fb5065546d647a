import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("mpi")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1)))
    compiled = torch.compile(model)
    x = torch.randn(4, 8)
    out = compiled(x)
    assert torch.allclose(out, model(x), atol=1e-5)
    out.mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    print("ok", tuple(out.shape))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
