import multiprocessing as mp

import torch
import torch.distributed as dist


def work(seed):
    import random

    return random.Random(seed).randint(1, 6)


if __name__ == "__main__":
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    with mp.get_context("fork").Pool(2) as pool:
        rolls = pool.map(work, range(10 * rank, 10 * rank + 10))
    t = torch.tensor(sum(rolls))
    dist.all_reduce(t)
    expected = sum(work(i) for i in range(10 * dist.get_world_size()))
    assert t.item() == expected
    print("pips:", t.item())
