"""Made-up data has the law that it is said to follow, and is the same on every rank."""

import pytest
import torch

from labkit.algorithms.data import clicks


def test_popular_numbers_come_in_proportion_to_one_over_their_place():
    """100,000 draws: the share of number 1 is 0.134, give or take 0.0011; 5 of these are allowed for."""
    ids, _ = clicks(100_000, rows=1000)
    share = 1 / sum(1 / k for k in range(1, 1001))
    for column, first in enumerate((0, 1000)):
        numbers = ids[:, column] - first
        assert numbers.min() == 0 and numbers.max() < 1000
        for k in (1, 2, 10):
            assert (numbers == k - 1).double().mean().item() == pytest.approx(share / k, abs=0.0055)


def test_the_same_seed_gives_the_same_clicks():
    state = torch.get_rng_state()
    (a, x), (b, y), (c, _) = clicks(100), clicks(100), clicks(100, seed=1)
    assert a.equal(b) and x.equal(y) and not a.equal(c)
    assert set(x.tolist()) == {0.0, 1.0}
    assert torch.get_rng_state().equal(state), "it takes nothing from the ranks' own random numbers"
