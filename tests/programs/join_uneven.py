import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("mpi")
rank = dist.get_rank()
BATCHES = 5

model = DDP(torch.nn.Linear(4, 2))
inputs = [torch.ones(2, 4) * (rank + 1) for _ in range(BATCHES + rank)]
seen = 0
with Join([model]):
    for batch in inputs:
        seen += 1
        model(batch).sum().backward()
assert seen == BATCHES + rank
print(f"Rank {rank} has exhausted all {len(inputs)} of its inputs!")
dist.barrier()
