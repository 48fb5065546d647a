"""A server that does not wait: its staleness adds up exactly, and its long steps diverge unless divided."""

import pytest
import torch

SETUP = """
import time
from labkit.algorithms import serve, serve_in_step, work

def quadratic(seconds):
    def gradient(weights):
        time.sleep(seconds)
        return weights - 1
    return gradient

def descend(server, updates, rate, seconds=0.0):
    errors, weights = [], torch.zeros(4)
    def step(weights, gradient, staleness):
        weights -= rate(staleness) * gradient
        errors.append((weights - 1).abs().max().item())
    if rank > 0:
        return work(quadratic(seconds), 4), None
    return server(weights, updates, step), errors
"""


def in_all(workers, updates):
    return (workers - 1) * (updates - workers / 2)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("slow", [1, 10], ids=["like", "unlike"])
def test_staleness_adds_up_whatever_the_speeds(labs, ask, ranks, slow):
    lab = labs(ranks)
    seconds = f"0.001 * ({slow} if rank == {ranks - 1} else 1)"
    found = ask(lab[:], f"descend(serve, 200, lambda s: 0.1, {seconds})", SETUP)
    history, errors = found[0]
    assert sum(staleness for _, staleness in history) == in_all(ranks - 1, 200)
    made = [count for count, _ in found[1:]]
    assert sum(made) == len(history) == len(errors) == 200
    assert made == [sum(worker == rank for worker, _ in history) for rank in range(1, ranks)]


def test_mean_staleness_of_like_workers_over_2000_updates(labs, ask):
    """Within 10 % of W - 1 was asked for; by counting it is W / (2 N) below, which is less than 0.1 %."""
    history, _ = ask(labs(4)[:], "descend(serve, 2000, lambda s: 0.1)", SETUP)[0]
    mean = sum(staleness for _, staleness in history) / 2000
    assert abs(mean / 2 - 1) < 0.1 and mean == pytest.approx(1.9985)


@pytest.mark.parametrize("updates", [3, 4, 5])
def test_few_updates(labs, ask, updates):
    history, _ = ask(labs(4)[:], f"descend(serve, {updates}, lambda s: 0.1)", SETUP)[0]
    assert len(history) == updates and sum(staleness for _, staleness in history) == in_all(3, updates)


def test_divided_steps_converge_where_plain_ones_do_not(labs, ask):
    """Simulated over five kinds of delays, 200 times each: plain above 1e4 and divided below 1e-4 always.

    A worker that gets no core may also bring the first weights' gradient, 1, as one of the last. Its step,
    divided, is 1.5 / 300 = 0.005, and there are three workers: 0.015, which the bound holds three times.
    """
    lab = labs(4)
    plain = ask(lab[:], "descend(serve, 300, lambda s: 1.5, 0.003)", SETUP)[0][1]
    divided = ask(lab[:], "descend(serve, 300, lambda s: 1.5 / (s + 1), 0.003)")[0][1]
    assert max(plain) > 1e3 and divided[-1] < 0.05


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_in_step_it_is_one_process(labs, ask, ranks):
    _, errors = ask(labs(ranks)[:], "descend(serve_in_step, 30, lambda s: 0.5)", SETUP)[0]
    expected = [0.5 ** (n + 1) for n in range(30)]
    assert torch.allclose(torch.tensor(errors), torch.tensor(expected), atol=1e-6)
