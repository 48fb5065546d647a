"""Blocking point-to-point communication."""

import torch
import torch.distributed as dist


def run(rank, size):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor=tensor, dst=1)
    elif rank == 1:
        dist.recv(tensor=tensor, src=0)
    print("Rank", rank, "has data", tensor[0].item())
    assert tensor[0].item() == (1 if rank < 2 else 0)


def init_process(fn, backend="mpi"):
    dist.init_process_group(backend)
    fn(dist.get_rank(), dist.get_world_size())


if __name__ == "__main__":
    init_process(run)
