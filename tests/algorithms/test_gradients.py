"""The weighted mean of the shards' gradients is the gradient of the whole, at 1 to 4 ranks."""

import pytest

SETUP = """
from labkit.algorithms import distance, gradient, mean_over_ranks, shard
from labkit.algorithms.data import digits
x, y, _, _ = digits({dtype})
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)).to(x.dtype)
whole = gradient(model, x, y)
"""
UNEQUAL = {1: [1500], 2: [1499, 1], 3: [900, 400, 200], 4: [900, 300, 200, 100]}


@pytest.mark.parametrize(("dtype", "bound"), [("torch.float32", 1e-6), ("torch.float64", 1e-12)])
def test_equal_shards(lab, ask, dtype, bound):
    found = ask(
        lab[:],
        "distance(mean_over_ranks(gradient(model, x_r, y_r), len(x_r)), whole)",
        SETUP.format(dtype=dtype) + "x_r, y_r = shard(x, rank, world_size), shard(y, rank, world_size)",
    )
    assert max(found) < bound


@pytest.mark.parametrize(("dtype", "bound"), [("torch.float32", 1e-6), ("torch.float64", 1e-12)])
def test_unequal_shards(lab, ask, dtype, bound):
    lab[:]["sizes"] = UNEQUAL[len(lab)]
    split = "g_r = gradient(model, x.split(sizes)[rank], y.split(sizes)[rank])"
    found = ask(
        lab[:], "distance(mean_over_ranks(g_r, sizes[rank]), whole)", SETUP.format(dtype=dtype) + split
    )
    assert max(found) < bound
    plain = ask(lab[:], "distance(mean_over_ranks(g_r, 1), whole)")
    assert len(lab) == 1 or min(plain) > 0.1, "unequal shards with equal weights must be visibly wrong"


def test_every_rank_has_the_same_mean_and_keeps_its_own(lab, ask):
    statements = "from labkit.algorithms import mean_over_ranks; g = torch.tensor([rank, 1.0])"
    same = ask(lab[:], "mean_over_ranks(g, 1).tolist()", statements)
    assert same == [pytest.approx([(len(lab) - 1) / 2, 1.0])] * len(lab)
    assert ask(lab[:], "g.tolist()") == [[rank, 1.0] for rank in range(len(lab))]


def test_only_the_group_counts(labs, ask):
    statements = """
from labkit.algorithms import mean_over_ranks
pair = dist.new_group([0, 1])
mean = mean_over_ranks(torch.tensor([4.0 * rank]), rank + 1, pair).item() if rank < 2 else None
"""
    assert ask(labs(3)[:], "mean", statements) == pytest.approx([8 / 3, 8 / 3, None])


def test_effective_batch_is_the_union(lab, ask):
    statements = SETUP.format(dtype="torch.float64") + (
        "mine = gradient(model, shard(x, rank, world_size)[:25], shard(y, rank, world_size)[:25])\n"
        "union = gradient(model, x[:25 * world_size], y[:25 * world_size])"
    )
    assert max(ask(lab[:], "distance(mean_over_ranks(mine, 25), union)", statements)) < 1e-12
