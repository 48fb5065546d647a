"""Rates are max-min fair: no link carries too much, and every message is held up by a link that is full."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.simulate.flows import fair_rates
from labkit.simulate.routes import NO_LINK


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), messages=st.integers(1, 30), links=st.integers(1, 8))
def test_every_message_has_a_bottleneck(seed, messages, links):
    random = np.random.default_rng(seed)
    capacity = np.array([np.inf, *random.uniform(1, 10, links)])
    rows = np.array([random.permutation(links + 1)[:2] for _ in range(messages)])
    rows[(rows == NO_LINK).all(1)] = 1
    rate = fair_rates(rows, capacity)
    carried = np.array([rate[(rows == link).any(1)].sum() for link in range(links + 1)])
    assert (carried[1:] <= capacity[1:] * (1 + 1e-9)).all()
    for row, own in zip(rows, rate, strict=True):
        full = [link for link in row if link != NO_LINK and carried[link] >= capacity[link] * (1 - 1e-9)]
        assert any(own >= rate[(rows == link).any(1)].max() * (1 - 1e-9) for link in full)
