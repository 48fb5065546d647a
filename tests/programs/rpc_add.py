import os

import torch
import torch.distributed.rpc as rpc


def describe(x, scale=1):
    return x * scale, rpc.get_worker_info().name


os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29533")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
neighbour = f"worker{(rank + 1) % world}"
s = rpc.rpc_sync(neighbour, torch.add, args=(torch.ones(2), rank))
assert s.tolist() == [rank + 1.0] * 2
future = rpc.rpc_async(neighbour, torch.mul, args=(torch.full((2,), 2.0), 3))
assert future.wait().tolist() == [6.0, 6.0]
rref = rpc.remote(neighbour, torch.arange, args=(4,))
assert rref.to_here().tolist() == [0, 1, 2, 3]
rpc.shutdown()
print("worker", rank, "done")
