import asyncio

import torch
import torch.distributed as dist


async def produce(queue, n):
    for i in range(n):
        await asyncio.sleep(0.01)
        await queue.put(i)
    await queue.put(None)


async def main():
    queue = asyncio.Queue()
    task = asyncio.create_task(produce(queue, 5))
    total = 0
    while (item := await queue.get()) is not None:
        total += item
    await task
    return total


dist.init_process_group("mpi")
t = torch.tensor(asyncio.run(main()))
dist.all_reduce(t)
print("all together:", t.item())
assert t.item() == 10 * dist.get_world_size()
