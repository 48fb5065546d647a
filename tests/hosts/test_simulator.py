"""Simulated all-reduces take as long as real ones, on two hosts whose ranks share a wire of 100 Mbit/s."""

from dataclasses import replace
from statistics import median

import pytest

from labkit import launch
from labkit.algorithms import halving_doubling, ring, tree
from labkit.lab.lab import Lab
from labkit.simulate import Network, cost, simulate
from tests.faults.test_faults import run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(180)]
SLOTS = 4
NBYTES = {ring: 4 * 840 * 1500, tree: 4 * 840 * 500, halving_doubling: 4 * 840 * 500}
"""1 to 8 ranks divide them. Messages between the hosts have 0.6 MB or more, 50 ms of the wire: the ms that
eight ranks on two cores take to begin one are a few per cent of it."""
LENGTHS = (100_000, 400_000, 1_600_000)
MEASURE = """
import time
from labkit.algorithms import halving_doubling, ring, tree
from labkit.schedule import Recv, Reduce, Schedule, Send, run

def seconds(schedule, members, nbytes, repeats):
    group, x, found = dist.new_group(members), torch.ones(nbytes // 4), []
    for _ in range(repeats if rank in members else 0):
        dist.barrier(group)
        begun = time.perf_counter()
        run(schedule, x, group=group)
        found.append(time.perf_counter() - begun)
    dist.barrier()  # ranks that take no part wait here, so that the cores are always as crowded
    return found

def message(steps, nbytes):
    members = sorted(steps)
    schedule = Schedule([steps[rank] for rank in members], chunks=2)
    return [t / 2 for t in seconds(schedule, members, 2 * nbytes, 4)]
"""
# Two messages, one after the other: on a wire that carries nothing else, one that carries others' messages
# the other way, and one that carries an answer at the same time. Peers count those that take part.
IN_TURN = "{{{0}: [Send(1, 0), Recv(1, 0)], {1}: [Recv(0, 0), Send(0, 0)]}}"
BOTH_WAYS = """{{
    {0}: [Send(2, 0), Recv(2, 0)], {2}: [Recv(0, 0), Send(0, 0)],
    {3}: [Send(1, 0), Recv(1, 0)], {1}: [Recv(3, 0), Send(3, 0)],
}}"""
EXCHANGE = "{{{0}: [(Send(1, 0), Recv(1, 1))] * 2, {1}: [(Send(0, 1), Recv(0, 0))] * 2}}"
PAIRS = (0, 1), (2, 3), (4, 5), (6, 7)
INSIDE = ", ".join(
    f"{a}: [Send({b}, 0), Recv({b}, 0)], {b}: [Reduce({a}, 0), Send({a}, 0)]" for a, b in PAIRS
)
"""Within the hosts all pairs at once, and half of them add: what they share are the two cores."""


def traffic(make, ranks: int) -> str:
    """How an algorithm uses the wire.

    TCP's acknowledgements wait behind data that goes their way: a message takes longer beside others, and
    less so if an answer takes them along. A simulated link knows none of them, so their cost is measured.
    """
    if make is tree:
        return IN_TURN
    return BOTH_WAYS if make is ring and ranks > 2 else EXCHANGE


def slowest(lab, call: str) -> float:
    """The median of its repetitions, each as long as its slowest rank took."""
    run(lab, f"found = {call}")
    return median(map(max, zip(*filter(None, lab[:]["found"]), strict=True)))


def fitted(lab, steps: str, *ranks: int) -> Network:
    """What one message of such traffic costs between those ranks."""
    steps = " ".join(steps.format(*ranks).split())
    found = [slowest(lab, f"message({steps}, {nbytes})") for nbytes in LENGTHS]
    alpha, beta = cost.fit(LENGTHS, found)
    print(f"{steps}: alpha {1e3 * alpha.value:.2f} ms, {8e-6 / beta.value:.1f} Mbit/s")
    return Network(max(alpha.value, 0.0), 1 / beta.value)


def test_measured_all_reduces_take_as_long_as_simulated_ones(narrow):
    off = {}
    lab = Lab(launch.plan(hosts=f"miriad2a:{SLOTS},miriad2b:{SLOTS}"))
    try:
        run(lab, MEASURE)
        inside = fitted(lab, f"{{{{{INSIDE}}}}}")
        across = {steps: fitted(lab, steps, 0, 4) for steps in (IN_TURN, EXCHANGE)}
        across[BOTH_WAYS] = fitted(lab, BOTH_WAYS, 0, 1, 4, 5)
        for ranks in range(2, 2 * SLOTS + 1):
            filled = -(-ranks // 2)  # on the first host
            members = [*range(filled), *range(SLOTS, SLOTS + ranks - filled)]
            for make, nbytes in NBYTES.items():
                network = replace(across[traffic(make, ranks)], ranks_per_nic=filled, inside=inside)
                name, trace = make.__name__, simulate(make(ranks), network, nbytes)
                expected = max(event.end for event in trace.events)
                found = slowest(lab, f"seconds({name}({ranks}), {members}, {nbytes}, 3)")
                error = off[name, ranks] = expected / found - 1
                print(f"{ranks} {name:17}simulated {expected:.3f} s, measured {found:.3f} s: {error:+.0%}")
    finally:
        lab.stop()
    assert {key: error for key, error in off.items() if abs(error) > 0.15} == {}
