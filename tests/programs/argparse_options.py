import argparse

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser(description="average a number over all workers")
    parser.add_argument("--value", type=float, default=3.0)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    args = parse()
    dist.init_process_group("mpi")
    me, n = dist.get_rank(), dist.get_world_size()
    value = torch.tensor(args.value + me)
    for _ in range(args.repeat):
        dist.all_reduce(value)
        value /= n
    if args.verbose:
        print("rank", me, "has", value)
    assert abs(value.item() - (3.0 + (n - 1) / 2)) < 1e-6
    if me == 0:
        print("mean", value.item())
