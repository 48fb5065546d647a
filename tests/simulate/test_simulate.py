"""Simulated times equal the closed forms where nothing is shared, and what sharing makes of them."""

from dataclasses import replace

import numpy as np
import pytest

from labkit import LabError
from labkit.algorithms import (
    halving_doubling,
    halving_doubling_rounds,
    naive,
    ring,
    ring_rounds,
    tree,
    tree_rounds,
)
from labkit.schedule import Compute, Recv, Schedule, Send, compute
from labkit.simulate import (
    ETHERNET_1G,
    ETHERNET_10G,
    NVLINK_4,
    PRESETS,
    Network,
    finish_times,
    ring_finish_times,
    simulate,
)
from labkit.simulate.cost import halving_doubling_cost, ring_cost, tree_cost

SIZE = 4 * 1024 * 1024


def seconds(trace):
    return max((event.end for event in trace.events), default=0.0)


def closed(cost, ranks, size, net):
    return cost(ranks).seconds(size, net.alpha, net.beta)


ALGORITHMS = pytest.mark.parametrize(
    "make, rounds, cost",
    [
        (ring, ring_rounds, ring_cost),
        (tree, tree_rounds, tree_cost),
        (halving_doubling, halving_doubling_rounds, halving_doubling_cost),
    ],
    ids=["ring", "tree", "halving_doubling"],
)


@ALGORITHMS
@pytest.mark.parametrize("ranks", [1, 2, 4, 16])
@pytest.mark.parametrize("network", PRESETS, ids=lambda network: network.name)
def test_closed_forms_hold(make, rounds, cost, ranks, network):
    expected = pytest.approx(closed(cost, ranks, SIZE, network), rel=1e-9)
    assert seconds(simulate(make(ranks), network, SIZE)) == expected
    assert finish_times(rounds(ranks), network, SIZE).max() == expected


@ALGORITHMS
def test_closed_forms_hold_for_thousands_of_ranks(make, rounds, cost):
    found = finish_times(rounds(1024), ETHERNET_10G, SIZE).max()
    assert found == pytest.approx(closed(cost, 1024, SIZE, ETHERNET_10G), rel=1e-9)


@ALGORITHMS
@pytest.mark.parametrize("ranks", [2, 3, 7, 8, 13])
def test_both_simulators_give_the_same_trace(make, rounds, cost, ranks):
    """Also where ranks start at different times, adding costs, and lengths do not divide."""
    network, start = replace(ETHERNET_1G, gamma=1e-9), np.random.default_rng(ranks).random(ranks) / 1000
    one = simulate(rounds(ranks), network, 40_036, start=start)
    other = simulate(make(ranks), network, 40_036, start=start)
    assert len(one.events) == len(other.events) > 0
    for a, b in zip(by_rank(one), by_rank(other), strict=True):
        times = [(event.start, event.end, event.waiting) for event in (a, b)]
        assert times[0] == pytest.approx(times[1], rel=1e-9, abs=1e-12)
        timeless = [replace(event, start=0, end=0, waiting=0) for event in (a, b)]
        assert timeless[0] == timeless[1]


def by_rank(trace):
    return sorted(trace.events, key=lambda event: (event.rank, event.verb, event.peers, event.sequence))


@pytest.mark.parametrize("share", [1, 2, 3.5])
def test_a_shared_switch_slows_everyone_alike(share):
    network = replace(ETHERNET_1G, switch=8 / share * ETHERNET_1G.bandwidth)
    slowed = replace(ETHERNET_1G, bandwidth=ETHERNET_1G.bandwidth / share)
    assert seconds(simulate(ring(8), network, SIZE)) == pytest.approx(
        closed(ring_cost, 8, SIZE, slowed), rel=1e-9
    )


def test_chunks_that_differ_by_an_element_cost_no_more_than_a_ten_thousandth():
    network = replace(ETHERNET_1G, switch=4 * ETHERNET_1G.bandwidth)
    slowed = replace(ETHERNET_1G, bandwidth=ETHERNET_1G.bandwidth / 2)
    found = seconds(simulate(ring(8), network, SIZE + 12))
    assert found == pytest.approx(closed(ring_cost, 8, SIZE + 12, slowed), rel=1e-4)


def test_a_link_that_four_ranks_share_carries_one_message_at_full_rate():
    """In a ring only the last rank of each host sends to the next host: NVLink inside hides its time."""
    shared = Network(1e-6, 1e9, ranks_per_nic=4, inside=replace(NVLINK_4, alpha=1e-6))
    assert seconds(simulate(ring(8), shared, SIZE)) == pytest.approx(
        closed(ring_cost, 8, SIZE, Network(1e-6, 1e9)), rel=1e-9
    )
    through_the_nic = replace(shared, inside=None)
    assert seconds(simulate(ring(8), through_the_nic, SIZE)) == pytest.approx(
        closed(ring_cost, 8, SIZE, Network(1e-6, 1e9 / 4)), rel=1e-9
    )


def test_half_duplex_halves_the_ring():
    half = replace(ETHERNET_1G, full_duplex=False)
    slowed = replace(ETHERNET_1G, bandwidth=ETHERNET_1G.bandwidth / 2)
    assert seconds(simulate(ring(4), half, SIZE)) == pytest.approx(
        closed(ring_cost, 4, SIZE, slowed), rel=1e-9
    )


def test_two_messages_at_once_share_the_link_of_their_sender():
    both = Schedule([[(Send(1, 0), Send(2, 0))], [Recv(0, 0)], [Recv(0, 0)]])
    found = simulate(both, ETHERNET_1G, SIZE)
    assert seconds(found) == pytest.approx(ETHERNET_1G.alpha + 2 * SIZE * ETHERNET_1G.beta)


def test_a_message_that_joins_late_takes_its_share_from_then_on():
    """1 MB at 1 MB/s: 0.5 s alone, 1 s shared; the other 1 s shared, 0.5 s alone."""
    network = Network(0.0, 1e6, switch=1e6)
    pairs = Schedule([[Send(1, 0)], [Recv(0, 0)], [Send(3, 0)], [Recv(2, 0)]])
    events = simulate(pairs, network, 1_000_000, start=[0, 0, 0.5, 0.5]).events
    ends = {event.rank: event.end for event in events}
    assert ends == pytest.approx({0: 1.5, 1: 1.5, 2: 2.0, 3: 2.0})


def test_waiting_is_until_the_partner_comes():
    trace = simulate(ring(2), ETHERNET_1G, SIZE, start=[0.0, 0.25])
    first = {(event.rank, event.verb): event for event in trace.events if event.sequence == 0}
    assert [first[rank, "send"].waiting for rank in (0, 1)] == [0.25, 0.0]
    assert first[0, "recv"].start == 0 and first[0, "recv"].label == "chunk 1"


def test_the_same_seed_gives_the_same_trace():
    step = compute(8, "forward and backward", 0.01) + ring(8)
    network = replace(ETHERNET_1G, switch=2 * ETHERNET_1G.bandwidth)

    def run(seed):
        return simulate(step, network, SIZE, noise=lambda random, s: s + random.exponential(s), seed=seed)

    assert run(3) == run(3) != run(4)


def test_computing_overlaps_messages_of_its_step():
    work = Compute("backward", 0.1)
    overlapped = Schedule([[(work, Send(1, 0))], [(work, Recv(0, 0))]])
    after = Schedule([[work, Send(1, 0)], [work, Recv(0, 0)]])
    message = ETHERNET_1G.alpha + SIZE * ETHERNET_1G.beta
    assert seconds(simulate(overlapped, ETHERNET_1G, SIZE)) == pytest.approx(0.1)
    assert seconds(simulate(after, ETHERNET_1G, SIZE)) == pytest.approx(0.1 + message)


@pytest.mark.parametrize("stages, batches", [(2, 1), (3, 4), (4, 8)])
def test_the_bubble_of_a_pipeline_is_the_formula(stages, batches):
    def stage(rank):
        for n in range(batches):
            if rank:
                yield Recv(rank - 1, f"activation {n}")
            yield Compute(f"forward {n}", 1.0, produces=(f"activation {n}",))
            if rank < stages - 1:
                yield Send(rank + 1, f"activation {n}")

    pipeline = Schedule([list(stage(rank)) for rank in range(stages)], chunks=0)
    trace = simulate(pipeline, Network(0.0, 1e9), 0)
    assert seconds(trace) == batches + stages - 1  # a bubble of (K - 1) / (M + K - 1)


def test_the_naive_all_reduce_is_as_slow_as_its_messages_in_a_row():
    found = seconds(simulate(naive(3), ETHERNET_1G, SIZE))
    assert found == pytest.approx(6 * (ETHERNET_1G.alpha + SIZE * ETHERNET_1G.beta))


def test_what_gets_stuck_is_named():
    with pytest.raises(LabError, match="Rank 1 sends chunk 0 to rank 0 in step 0, which never receives"):
        simulate(Schedule([[Send(1, 0)], [Send(0, 0), Recv(0, 0)]]), ETHERNET_1G, 4)
    with pytest.raises(LabError, match="Deadlock: rank 0 in step 0"):
        simulate(Schedule([[Send(1, 0), Recv(1, 0)], [Send(0, 0), Recv(0, 0)]]), ETHERNET_1G, 4)


SHARING = {
    "a switch": replace(ETHERNET_10G, switch=2 * ETHERNET_10G.bandwidth),
    "two ranks a link": replace(ETHERNET_10G, ranks_per_nic=2),
    "hosts of four": replace(ETHERNET_10G, ranks_per_nic=4, inside=NVLINK_4),
    "one way at a time": replace(ETHERNET_1G, full_duplex=False),
    "links, a switch and adding": replace(ETHERNET_1G, ranks_per_nic=3, gamma=1e-9, switch=3e8),
}


@ALGORITHMS
@pytest.mark.parametrize("network", SHARING.values(), ids=SHARING)
@pytest.mark.parametrize("ranks", [2, 3, 8, 13])
def test_times_alone_are_those_of_the_trace_where_links_are_shared(make, rounds, cost, ranks, network):
    for start in (np.zeros(ranks), np.random.default_rng(ranks).random(ranks) / 1000):
        found = finish_times(rounds(ranks), network, 40_036, start=start)
        last = start.copy()
        for event in simulate(rounds(ranks), network, 40_036, start=start).events:
            last[event.rank] = max(last[event.rank], event.end)
        if network.gamma:  # what a rank adds last is no message
            assert found.max() == pytest.approx(last.max(), rel=1e-9)
        else:
            assert found == pytest.approx(last, rel=1e-9)


def test_hundreds_of_ranks_share_links():
    """Eight ranks a link: in step, so each has an eighth of it."""
    hosts = replace(ETHERNET_10G, ranks_per_nic=8)
    slower = replace(ETHERNET_10G, bandwidth=ETHERNET_10G.bandwidth / 8)
    found = finish_times(ring_rounds(256), hosts, 256 * SIZE).max()
    assert found == pytest.approx(finish_times(ring_rounds(256), slower, 256 * SIZE).max(), rel=1e-9)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 65, 200])
@pytest.mark.parametrize("gamma", [0, 1e-9])
@pytest.mark.parametrize("length", ["divides", "one over", "half"])
def test_a_turning_ring_takes_as_long_as_its_rounds(ranks, gamma, length):
    nbytes = 4 * {"divides": 30 * ranks, "one over": 30 * ranks + 1, "half": ranks // 2}[length]
    network = replace(ETHERNET_1G, gamma=gamma)
    for start in (0.0, np.random.default_rng(ranks).random(ranks) / 100, np.eye(ranks)[0]):
        expected = finish_times(ring_rounds(ranks), network, nbytes, start=start)
        assert ring_finish_times(ranks, network, nbytes, start=start) == pytest.approx(expected, rel=1e-9)


def test_a_ring_of_65536_ranks_takes_what_the_formula_says():
    found = ring_finish_times(65_536, ETHERNET_10G, 64 * 65_536).max()
    assert found == pytest.approx(closed(ring_cost, 65_536, 64 * 65_536, ETHERNET_10G), rel=1e-9)


def test_a_turning_ring_shares_nothing():
    with pytest.raises(LabError, match="ranks share links"):
        ring_finish_times(64, replace(ETHERNET_1G, switch=1e9), SIZE)


def test_a_slow_rank_delays_its_neighbours_first():
    start = np.zeros(8)
    start[0] = 1.0
    found = finish_times(ring_rounds(8), ETHERNET_1G, SIZE, start=start)
    assert found.min() > 1.0
    assert found.max() < 1.0 + 2 * closed(ring_cost, 8, SIZE, ETHERNET_1G)


def test_presets_say_where_they_come_from():
    assert all("bandwidth: " in one.source and "latency: " in one.source for one in PRESETS)
