"""Simulated workers obey the same counting and the same order statistics as real ones."""

import numpy as np
import pytest

from labkit import LabError
from labkit.simulate.arrivals import asynchronous, first_of


@pytest.mark.parametrize("workers", [1, 2, 5, 30])
@pytest.mark.parametrize("slow", [1, 20])
def test_mean_staleness_is_one_less_than_the_workers(workers, slow):
    random = np.random.default_rng(0)
    arrivals = asynchronous(workers, 6000, lambda w: random.exponential() * (slow if w == workers else 1))
    # what is still under way at the end is missing: at most some rounds of the slowest
    assert np.mean([a.staleness for a in arrivals]) == pytest.approx(workers - 1, rel=0.1)
    assert [a.time for a in arrivals] == sorted(a.time for a in arrivals)


def test_a_slow_worker_has_older_gradients_and_fewer():
    arrivals = asynchronous(3, 1000, lambda worker: 5.0 if worker == 3 else 1.0 + worker / 1000)
    slow = [a.staleness for a in arrivals if a.worker == 3]
    fast = [a.staleness for a in arrivals if a.worker < 3]
    assert len(slow) < len(fast) / 8 and np.mean(slow) > 9 and np.mean(fast) < 1.5


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_without_memory_or_backup_a_step_takes_its_order_statistic(needed):
    """Exponential times: the rest of a late one is like a new one, so the formula holds with late workers."""
    random = np.random.default_rng(1)
    times = first_of(4, needed, 20_000, lambda worker: random.exponential())
    expected = sum(1 / k for k in range(5 - needed, 5))
    if needed == 4:
        assert times[-1] / 20_000 == pytest.approx(expected, rel=0.03)
    else:
        assert times[-1] / 20_000 > 0.97 * expected, "who comes too late must begin anew"


def test_a_worker_that_is_always_late_delays_only_who_waits_for_it():
    def seconds(worker):
        return 10.0 if worker == 3 else 1.0

    assert first_of(3, 3, 5, seconds)[-1] == 50.0
    assert first_of(3, 2, 5, seconds)[-1] == 5.0


@pytest.mark.parametrize("needed", [0, 4])
def test_needed_must_be_possible(needed):
    with pytest.raises(LabError, match="needed from 1 to workers"):
        first_of(3, needed, 1, lambda worker: 1.0)
