"""Rounds are the same schedule as tuples: a rank sends and receives at most one message in each."""

import numpy as np
import pytest

from labkit.algorithms import halving_doubling_rounds, ring, ring_rounds, tree_rounds
from labkit.schedule import Recv, Reduce, Schedule, Send


def test_a_ring_by_its_rounds_is_the_ring_by_hand():
    def step(rank, n):
        receive = Reduce if n < 3 else Recv
        return Send((rank + 1) % 4, (rank - n) % 4), receive((rank - 1) % 4, (rank - n - 1) % 4)

    by_hand = Schedule([[step(rank, n) for n in range(6)] for rank in range(4)], chunks=4)
    assert ring(4) == by_hand


@pytest.mark.parametrize("make", [ring_rounds, tree_rounds, halving_doubling_rounds])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8, 100])
def test_at_most_one_message_each_way(make, ranks):
    rounds = make(ranks)
    for one in rounds.rounds():
        for ends in (one.source, one.to):
            assert len(np.unique(ends)) == len(ends)
            assert (0 <= ends).all() and (ends < ranks).all()
        assert (np.asarray(one.first) < one.last).all() and (np.asarray(one.last) <= rounds.chunks).all()
