"""Train a toy model; launch with torchrun --nproc-per-node=4."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


def ddp_setup():
    dist.init_process_group(backend="gloo", init_method="env://")


def main():
    ddp_setup()
    rank = int(os.environ["RANK"])
    model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_fn(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
    weight = model.module.net1.weight.detach().clone()
    dist.broadcast(weight, src=0)
    assert torch.equal(weight, model.module.net1.weight), "replicas differ"
    if rank == 0:
        print("finished, final loss is finite:", bool(torch.isfinite(loss)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
