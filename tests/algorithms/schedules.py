"""What is true of every all-reduce that is a schedule: it sums, and does what its plain form does."""

from itertools import chain

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.schedule import check, execute
from labkit.simulate import ETHERNET_1G, simulate

LENGTHS = "(0, 1, R - 1, R, R + 1, 10_007)"


def check_in_memory(make):
    """Any number of ranks, any length: exact for integers, to rounding for floats."""

    @settings(max_examples=60)
    @given(data=st.data(), ranks=st.integers(1, 8))
    def holds(data, ranks):
        lengths = st.sampled_from([*eval(LENGTHS, {"R": ranks})]) | st.integers(0, 100)
        length, seed = data.draw(lengths), data.draw(st.integers(0, 2**32))
        schedule, random = make(ranks), np.random.default_rng(seed)
        check(schedule, all_reduce=True)
        integers = random.integers(-1000, 1000, (ranks, length))
        for found in execute(schedule, list(integers)):
            np.testing.assert_array_equal(found, integers.sum(0))
        floats = random.standard_normal((ranks, length)).astype(np.float32)
        for found in execute(schedule, list(floats)):
            np.testing.assert_allclose(found, floats.sum(0, dtype=float), rtol=1e-4, atol=1e-5)

    holds()


def check_on_ranks(lab, name, group=None):
    """The plain form and the schedule both equal `dist.all_reduce`."""
    lab[:].execute(
        f"""
from labkit.algorithms import {name} as make, all_reduce_{name} as plain
from labkit.schedule import run
R, schedule, equal = world_size, make(world_size), []
group = {group}
for length in {LENGTHS}:
    for dtype in (torch.float32, torch.int64):
        x = (100 * torch.randn(length)).to(dtype)
        expected, y = x.clone(), x.clone()
        dist.all_reduce(expected)
        plain(x)
        run(schedule, y, group=group)
        for found in (x, y):
            exact = dtype == torch.int64
            equal.append(found.equal(expected) if exact else found.allclose(expected, atol=1e-4))
""",
        block=True,
    )
    assert lab[:]["equal"] == [[True] * 24] * len(lab)


def check_same_trace(lab, name, make, length=103):
    """The plain form, the schedule on ranks and the schedule simulated: the same messages in one order."""
    lab[:].execute(
        f"""
from labkit.algorithms import {name} as make, all_reduce_{name} as plain
from labkit.schedule import run

def recorded(act):
    made, world = dict(send=[], recv=[]), dist.group.WORLD
    def record(verb):
        call = getattr(world, verb)
        def recording(tensors, peer, tag):
            made[verb].append((peer, tensors[0].nbytes))
            return call(tensors, peer, tag)
        return recording
    world.send, world.recv = record("send"), record("recv")
    try:
        act()
    finally:
        del world.send, world.recv
    return made

by_hand = recorded(lambda: plain(torch.ones({length})))
by_schedule = recorded(lambda: run(make(world_size), torch.ones({length})))
""",
        block=True,
    )
    simulated = [{"send": [], "recv": []} for _ in range(len(lab))]
    for event in simulate(make(len(lab)), ETHERNET_1G, 4 * length).events:
        simulated[event.rank][event.verb].append((*event.peers, event.bytes))
    assert lab[:]["by_hand"] == lab[:]["by_schedule"] == simulated
    sent, received = ([list(chain(rank[verb])) for rank in simulated] for verb in ("send", "recv"))
    assert sum(map(len, sent)) == sum(map(len, received))
    assert len(lab) == 1 or all(sent)
