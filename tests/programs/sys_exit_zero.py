import sys

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("mpi")
    t = torch.tensor(dist.get_rank())
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    assert t == dist.get_world_size() - 1
    print("largest rank", t.item())
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
