# as in a notebook; a script of it needs asyncio.run
import asyncio

import torch
import torch.distributed as dist

dist.init_process_group("mpi")


async def fetch(i):
    await asyncio.sleep(0.05)
    return i * 10


parts = await asyncio.gather(*(fetch(i) for i in range(dist.get_rank() + 1)))
t = torch.tensor(sum(parts))
dist.all_reduce(t)
await asyncio.sleep(0)
assert t.item() == 10 * sum(r * (r + 1) // 2 for r in range(dist.get_world_size())), t
print("fetched", t.item())
