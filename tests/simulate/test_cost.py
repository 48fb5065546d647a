"""Closed forms equal the simulator; intervals hold what they promise; break-even is where speed-up is 1."""

from math import inf

import numpy as np
import pytest

from labkit.algorithms import fit_alpha_beta, halving_doubling_rounds, naive, ring_rounds, tree_rounds
from labkit.simulate import ETHERNET_10G, cost, finish_times, simulate

LENGTH = 4 * 840 * 1000  # bytes: 1 to 8 ranks divide it


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize(
    "closed, rounds",
    [
        (cost.ring_cost, ring_rounds),
        (cost.tree_cost, tree_rounds),
        (cost.halving_doubling_cost, halving_doubling_rounds),
    ],
)
def test_closed_forms_equal_the_simulator(closed, rounds, ranks):
    expected = closed(ranks).seconds(LENGTH, ETHERNET_10G.alpha, ETHERNET_10G.beta)
    found = finish_times(rounds(ranks), ETHERNET_10G, LENGTH).max()
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("ranks", range(2, 6))
def test_the_naive_form_bounds_the_simulator(ranks):
    trace = simulate(naive(ranks), ETHERNET_10G, LENGTH)
    expected = cost.naive_cost(ranks).seconds(LENGTH, ETHERNET_10G.alpha, ETHERNET_10G.beta)
    found = max(event.end for event in trace.events)
    assert 0.85 * expected < found <= expected * (1 + 1e-9)
    assert ranks > 3 or found == pytest.approx(expected)


def test_the_fit_is_that_of_lesson_01_and_its_interval_covers():
    random, sizes = np.random.default_rng(0), np.geomspace(8, 1e7, 12)
    covered = []
    for _ in range(400):
        seconds = (1e-5 + sizes * 2e-10) * (1 + 0.05 * random.standard_normal(len(sizes)))
        alpha, beta = cost.fit(sizes, seconds)
        assert (alpha.value, beta.value) == fit_alpha_beta(sizes, seconds)
        covered.append((1e-5 in alpha, 2e-10 in beta))
    assert np.mean(covered, axis=0) == pytest.approx(0.95, abs=0.04)


def test_the_interval_of_a_mean_covers():
    draws = np.random.default_rng(1).exponential(1.0, (400, 30))
    assert np.mean([1.0 in cost.mean(row) for row in draws]) == pytest.approx(0.95, abs=0.05)


def test_at_break_even_the_speed_up_is_one():
    ranks, t_comp, nbytes, alpha = 4, 0.05, 10_000_000, 1e-3
    ring = cost.ring_cost(ranks)
    bandwidth = cost.break_even_bandwidth(ring, nbytes, ranks, t_comp, alpha)
    t_sync = ring.seconds(nbytes, alpha, 1 / bandwidth)
    assert cost.speed_up(ranks, t_comp, t_sync) == pytest.approx(1)
    assert cost.break_even_ranks(t_comp, t_sync) == pytest.approx(ranks)
    assert cost.break_even_batch(ranks, t_comp / 25, t_sync) == pytest.approx(25)
    assert cost.pays(ranks, t_comp, 0.99 * t_sync) and not cost.pays(ranks, t_comp, 1.01 * t_sync)
    alone, together = cost.epoch_time(1000, 25, 1, t_comp), cost.epoch_time(1000, 25, ranks, t_comp, t_sync)
    assert alone == pytest.approx(together)


def test_latency_alone_can_be_too_much():
    assert cost.break_even_bandwidth(cost.ring_cost(4), 1, 4, t_comp=1e-3, alpha=1e-3) == inf
    assert cost.break_even_batch(4, 1e-3, t_sync=1e-3, overhead=1.0) == 0


def test_two_algorithms_cross_where_they_take_equally_long():
    ring, tree = cost.ring_cost(8), cost.tree_cost(8)
    size = cost.crossing(ring, tree, 1e-4, 1e-8)
    assert ring.seconds(size, 1e-4, 1e-8) == pytest.approx(tree.seconds(size, 1e-4, 1e-8))
    assert size > 0


def test_corners_bound_a_combination():
    t_comp, t_sync = cost.Estimate(2, 1, 3), cost.Estimate(1, 0.5, 2)
    found = cost.combine(lambda c, s: cost.speed_up(4, c, s), t_comp, t_sync)
    assert found == cost.Estimate(4 * 2 / 3, 4 * 1 / 3, 4 * 3 / 3.5)
