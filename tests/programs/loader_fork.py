"""A DataLoader whose workers are started by fork, each rank with its shard of the data."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i), torch.tensor(i * i)


def main():
    dist.init_process_group("mpi")
    data = Squares(32)
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, multiprocessing_context="fork")
    total, count = torch.zeros(1), 0
    sampler.set_epoch(0)
    for i, square in loader:
        assert torch.equal(i * i, square)
        total += i.sum()
        count += len(i)
    assert count == 32 // dist.get_world_size()
    dist.all_reduce(total)
    assert total.item() == sum(range(32))
    if dist.get_rank() == 0:
        print("every sample once:", total.item())


if __name__ == "__main__":
    main()
