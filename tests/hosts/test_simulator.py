"""Simulated all-reduces take as long as real ones, on two hosts whose ranks share a wire of 100 Mbit/s."""

from statistics import median

import pytest

from labkit import cost, launch
from labkit.algorithms import halving_doubling, ring, tree
from labkit.lab import Lab
from labkit.simulate import Network, simulate
from tests.faults.test_faults import run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]
SLOTS = 4
NBYTES = {ring: 4 * 840 * 2000, tree: 4 * 840 * 500, halving_doubling: 4 * 840 * 500}
"""1 to 8 ranks divide them. A message between the hosts is 0.8 MB or more, which is 70 ms of the wire: what eight
ranks on two cores take to begin one, some ms, is a few per cent of it."""
LENGTHS = (100_000, 400_000, 1_600_000)
MEASURE = """
import time
from labkit.algorithms import halving_doubling, ring, tree
from labkit.schedule import Recv, Schedule, Send, run

def seconds(schedule, members, nbytes, repeats):
    group, x, found = dist.new_group(members), torch.ones(nbytes // 4), []
    for _ in range(repeats if rank in members else 0):
        dist.barrier(group)
        begun = time.perf_counter()
        run(schedule, x, group=group)
        found.append(time.perf_counter() - begun)
    return found

def ping_pong(pairs, nbytes):
    '''Seconds of a message, with all pairs at it at once: pairs[0] says where the first message goes.'''
    members = sorted(rank for pair in pairs for rank in pair)
    steps = [None] * len(members)
    for here, there in pairs:
        a, b = members.index(here), members.index(there)
        steps[a], steps[b] = [Send(b, 0), Recv(b, 0)], [Recv(a, 0), Send(a, 0)]
    return [t / 2 for t in seconds(Schedule(steps), members, nbytes, 4)]
"""


def slowest(lab, call: str) -> float:
    """The median of its repetitions, each as long as its slowest rank took."""
    run(lab, f"found = {call}")
    return median(map(max, zip(*filter(None, lab[:]["found"]), strict=True)))


def fitted(lab, pairs) -> Network:
    """What a message between these ranks costs while the others exchange theirs."""
    found = [slowest(lab, f"ping_pong({pairs}, {nbytes})") for nbytes in LENGTHS]
    alpha, beta = cost.fit(LENGTHS, found)
    print(f"{pairs}: alpha {1e3 * alpha.value:.2f} ms, {8e-6 / beta.value:.1f} Mbit/s")
    return Network(max(alpha.value, 0.0), 1 / beta.value)


def test_measured_all_reduces_take_as_long_as_simulated_ones(narrow):
    off = {}
    lab = Lab(launch.plan(hosts=f"miriad2a:{SLOTS},miriad2b:{SLOTS}"))
    try:
        run(lab, MEASURE)
        inside = fitted(lab, [(0, 1), (4, 5)])
        across = fitted(lab, [(0, 4), (5, 1)])
        for ranks in range(2, 2 * SLOTS + 1):
            filled = -(-ranks // 2)  # on the first host
            members = [*range(filled), *range(SLOTS, SLOTS + ranks - filled)]
            network = Network(across.alpha, across.bandwidth, ranks_per_nic=filled, inside=inside)
            for make, nbytes in NBYTES.items():
                name, trace = make.__name__, simulate(make(ranks), network, nbytes)
                expected = max(event.end for event in trace.events)
                found = slowest(lab, f"seconds({name}({ranks}), {members}, {nbytes}, 3)")
                error = off[name, ranks] = expected / found - 1
                print(f"{ranks} {name:17}simulated {expected:.3f} s, measured {found:.3f} s: {error:+.0%}")
    finally:
        lab.stop()
    assert {key: error for key, error in off.items() if abs(error) > 0.15} == {}
