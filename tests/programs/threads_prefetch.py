import queue
import threading

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
batches: queue.Queue = queue.Queue(maxsize=2)


def prefetch(n):
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(n):
        batches.put(torch.rand(16, generator=generator))
    batches.put(None)


worker = threading.Thread(target=prefetch, args=(6,), daemon=True)
worker.start()
steps = 0
while True:
    batch = batches.get()
    if batch is None:
        break
    mean = batch.mean()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert 0 < mean < 1
    steps += 1
worker.join()
assert steps == 6
print("steps:", steps)
