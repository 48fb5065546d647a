import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
        self.head = nn.Linear(8, 1)

    def forward(self, ids):
        return self.head(self.table(ids))


torch.manual_seed(0)
net = DDP(Bag())
sparse = torch.optim.SparseAdam([net.module.table.weight], lr=0.01)
dense = torch.optim.Adam(net.module.head.parameters(), lr=0.01)
ids = torch.arange(4).reshape(1, 4) + 4 * rank
net(ids).sum().backward()
grad = net.module.table.weight.grad
assert grad.is_sparse and grad.coalesce().indices().unique().numel() == 4 * size
sparse.step(), dense.step()
sums = [None] * size
dist.all_gather_object(sums, net.module.table.weight.sum().item())
assert len(set(sums)) == 1, sums
print("tables stay equal")
