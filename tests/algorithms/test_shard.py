"""Shards do not overlap, leave nothing out, and are those of DistributedSampler."""

import pytest
import torch

from labkit.algorithms import shard


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("samples", [0, 1, 7, 12, 1500])
def test_every_sample_is_in_one_shard(world_size, samples):
    parts = [shard(torch.arange(samples), rank, world_size) for rank in range(world_size)]
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(samples))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_equal_shards_are_those_of_distributed_sampler(world_size):
    for rank in range(world_size):
        sampler = torch.utils.data.DistributedSampler(range(1500), world_size, rank, shuffle=False)
        assert list(sampler) == list(shard(range(1500), rank, world_size))
