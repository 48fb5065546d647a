"""A slow rank is noticed by a wait with a limit, and everybody goes on."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
patient = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))

t = torch.ones(1)
work = None
if rank == 3:
    time.sleep(1.5)
start = time.monotonic()
work = dist.all_reduce(t, async_op=True)
polls = 0
while not work.is_completed() and time.monotonic() - start < 30:
    polls += 1
    time.sleep(0.01)
work.wait()
waited = torch.tensor(time.monotonic() - start)
slowest = [torch.zeros(()) for _ in range(size)]
dist.all_gather(slowest, waited, group=patient)
straggler = min(range(size), key=lambda r: slowest[r])
assert straggler == 3 and t.item() == size, slowest
print("waited for rank", straggler)
