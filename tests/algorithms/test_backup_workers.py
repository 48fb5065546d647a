"""The first gradients make the update, late ones are dropped; without backups it is synchronous SGD."""

import pytest

SETUP = """
import time
from labkit.algorithms import serve_first, work

def serve(needed, updates, slow=0.0):
    steps, weights = [], torch.zeros(2)
    def step(weights, gradient, staleness):
        steps.append(gradient.tolist())
        weights -= 0.5 * gradient
    def gradient(weights):
        time.sleep(slow if rank == world_size - 1 else 0)
        return weights - 2.0**rank
    if rank > 0:
        return work(gradient, 2)
    serve_first(weights, updates, needed, step)
    return weights.tolist(), steps
"""


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_with_all_needed_it_is_the_mean_of_all(labs, ask, ranks):
    found = ask(labs(ranks)[:], "serve(world_size - 1, 40)", SETUP)
    goal = sum(2.0**rank for rank in range(1, ranks)) / (ranks - 1)
    assert found[0][0] == pytest.approx([goal, goal], rel=1e-5)
    assert found[1:] == [40] * (ranks - 1)


def test_nobody_waits_for_the_slowest_and_its_gradients_are_not_used(labs, ask):
    found = ask(labs(4)[:], "serve(2, 40, slow=5)", SETUP)
    goal = (2.0**1 + 2.0**2) / 2
    assert found[0][0] == pytest.approx([goal, goal], rel=1e-5)
    assert found[3] < 10 <= min(found[1:3]), (
        "most of its time the slow one computed, and the others did not wait"
    )


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_every_gradient_that_is_used_is_of_the_weights_that_it_changes(labs, ask, needed):
    weights, steps = ask(labs(4)[:], f"serve({needed}, 30, slow=0.003)", SETUP)[0]
    now = 0.0
    means = {sum(group) / needed for group in _groups(needed)}
    for gradient, _ in steps:
        assert any(now - mean == pytest.approx(gradient, abs=1e-4) for mean in means)
        now -= 0.5 * gradient
    assert weights[0] == pytest.approx(now, abs=1e-3)


def _groups(needed):
    from itertools import combinations

    return combinations([2.0, 4.0, 8.0], needed)
