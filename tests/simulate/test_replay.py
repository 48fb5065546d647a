"""A recorded step takes on another network what its parts take there."""

import pytest

from labkit import LabError
from labkit.algorithms import tree_rounds
from labkit.simulate import ETHERNET_1G, ETHERNET_10G
from labkit.simulate.cost import ring_cost, tree_cost
from labkit.simulate.replay import replay
from labkit.trace import COMPUTE, Event, Trace

SIZE = 840_000


def recorded(ranks, seconds=0.1, size=SIZE):
    """Compute, all_reduce, compute; rank r computes r ms longer. The recorded all_reduce took 5 ms."""
    events = []
    for rank in range(ranks):
        met = seconds + (ranks - 1) / 1000
        own = seconds + rank / 1000
        events += [
            Event(rank, COMPUTE, 0.0, own),
            Event(rank, "all_reduce", own, met + 0.005, tuple(range(ranks)), size),
            Event(rank, COMPUTE, met + 0.005, met + 0.015),
        ]
    return Trace(ranks, tuple(events))


def length(trace):
    return max(event.end for event in trace.events)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("network", [ETHERNET_1G, ETHERNET_10G])
def test_a_step_is_its_parts(ranks, network):
    found = replay(recorded(ranks), network)
    sync = ring_cost(ranks).seconds(SIZE, network.alpha, network.beta)
    slowest, spread = 0.1 + (ranks - 1) / 1000, (ranks - 1) / 1000
    assert slowest + sync - spread <= length(found) - 0.01 <= slowest + sync + spread
    assert found.world_size == ranks and {e.verb for e in found.events} == {COMPUTE, "send", "recv"}


def test_more_ranks_and_another_algorithm():
    found = replay(recorded(1), ETHERNET_1G, ranks=64, algorithm=tree_rounds)
    sync = tree_cost(64).seconds(SIZE, ETHERNET_1G.alpha, ETHERNET_1G.beta)
    assert length(found) == pytest.approx(0.1 + sync + 0.01)


def test_what_cannot_be_replayed_is_said():
    uneven = recorded(2).events[:3] + recorded(2, size=8).events[3:]
    with pytest.raises(LabError, match="all-reduces differ"):
        replay(Trace(2, uneven), ETHERNET_1G)
    with pytest.raises(LabError, match="send on rank 0"):
        replay(Trace(1, (Event(0, "send", 0.0, 1.0, (0,), 8),)), ETHERNET_1G)
