"""Ping-pong measures a message; the fit finds alpha and beta again."""

import pytest

from labkit.algorithms import fit_alpha_beta


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_larger_message_takes_longer(labs, ask, ranks):
    pair = labs(ranks)[[0, 1]]
    run = "from labkit.algorithms import ping_pong"
    for small, large in ask(pair, "(ping_pong(1), ping_pong(32_000_000, 5))", run):
        assert 0 < small < large


@pytest.mark.parametrize(("alpha", "beta"), [(1e-5, 1e-9), (1e-3, 1e-8), (0.0, 1e-10)])
def test_the_fit_finds_what_made_the_times(alpha, beta):
    sizes = [4**k for k in range(13)]
    found = fit_alpha_beta(sizes, [alpha + n * beta for n in sizes])
    assert found == pytest.approx((alpha, beta), rel=1e-6, abs=1e-12)


def test_small_messages_count_as_much_as_large_ones():
    sizes, (alpha, beta) = [4**k for k in range(13)], (1e-5, 1e-9)
    seconds = [(alpha + n * beta) * (1.1 if n > 10**6 else 1.0) for n in sizes]
    found, _ = fit_alpha_beta(sizes, seconds)
    assert found == pytest.approx(alpha, rel=0.05)
