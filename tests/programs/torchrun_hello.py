import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
global_rank = int(os.environ["RANK"])
n = int(os.environ["WORLD_SIZE"])

dist.init_process_group(backend="nccl" if torch.cuda.device_count() >= n else "gloo")
assert dist.get_rank() == global_rank and dist.get_world_size() == n
assert 0 <= local_rank < n

t = torch.ones(4) * global_rank
dist.all_reduce(t, op=dist.ReduceOp.SUM)
print(f"[{global_rank}/{n}] local {local_rank}: {t.tolist()}")
assert t[0].item() == n * (n - 1) / 2
dist.destroy_process_group()
assert not dist.is_initialized()
