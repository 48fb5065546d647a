"""The shape of many a tutorial: mp.spawn starts the processes itself, here from the first rank."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, size, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    t = torch.tensor(rank + 1.0)
    dist.all_reduce(t)
    assert t.item() == size * (size + 1) / 2
    print(f"worker {rank}: {t.item()}")
    dist.destroy_process_group()


if __name__ == "__main__" and os.environ.get("RANK", "0") == "0":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(worker, args=(2, port), nprocs=2, join=True)
