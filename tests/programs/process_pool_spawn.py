import math
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    context = mp.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        values = list(pool.map(math.factorial, range(rank, 12, size)))
    t = torch.tensor(sum(values))
    dist.all_reduce(t)
    assert t.item() == sum(math.factorial(i) for i in range(12))
    print("sum of factorials", t.item())


if __name__ == "__main__":
    main()
