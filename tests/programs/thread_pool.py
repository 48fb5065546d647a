from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
import torch.distributed as dist


def shard_norm(i):
    g = torch.Generator().manual_seed(i)
    return i, torch.randn(1000, generator=g).norm().item()


if __name__ == "__main__":
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(shard_norm, i) for i in range(rank, 16, size)]
        mine = dict(f.result() for f in as_completed(futures))
    gathered = [None] * size
    dist.all_gather_object(gathered, mine)
    norms = {i: v for part in gathered for i, v in part.items()}
    assert sorted(norms) == list(range(16))
    assert all(abs(v - 1000**0.5) < 4 for v in norms.values())
    if rank == 0:
        print(len(norms), "norms")
