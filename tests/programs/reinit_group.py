import torch
import torch.distributed as dist

dist.init_process_group("mpi")
sums = []
for attempt in range(3):
    if not dist.is_initialized():
        dist.init_process_group("mpi")
    t = torch.ones(1) * (attempt + 1)
    dist.all_reduce(t)
    sums.append(t.item() / dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
assert sums == [1, 2, 3], sums
print("three worlds:", sums)
