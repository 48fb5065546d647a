"""Over a wire of 100 Mbit/s: what lesson 05 predicts is what an epoch takes; what a replay says, a step."""

from statistics import median

import numpy as np
import pytest

from labkit.simulate import Network, cost
from labkit.simulate.replay import replay
from tests.faults.test_faults import run

pytestmark = pytest.mark.nightly
MBIT = 1e6 / 8
"""Bytes per second."""
WIRE = 100 * MBIT
"""What `tc` lets through: whole frames."""
PAYLOAD = 1448 / 1514
"""What TCP carries of a frame of Ethernet: headers of Ethernet, IP and TCP take 66 bytes."""
STEPS = 2
TRAIN = f"""
import time
from labkit.algorithms import ping_pong, sync_initial_weights, train_epoch
from labkit.algorithms.data import digits
from torch import nn

B, N = 2000, 2000 * {STEPS} * world_size
x, y = (each.repeat(5, *[1] * (each.dim() - 1))[:N] for each in digits()[:2])  # digits, several times
mine = slice(rank, None, world_size)
layers = nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10)
model = nn.Sequential(*layers)
sync_initial_weights(model)
sgd = torch.optim.SGD(model.parameters(), lr=0.01)

def alone(model):
    pass

def seconds(x, y, *sync):
    dist.barrier()
    begun = time.perf_counter()
    train_epoch(model, sgd, x, y, B, 0, *sync)
    dist.barrier()
    return time.perf_counter() - begun

def rounds(times):
    return [(seconds(x[mine], y[mine], alone), seconds(x[mine], y[mine]), seconds(x, y, alone))
            for _ in range(times)]

def step():
    return seconds(x[:B], y[:B])

rounds(1)
sizes = [p.nbytes for p in model.parameters()]
"""


@pytest.fixture(scope="module")
def trained(pair):
    """The pair of ranks, with a model that they have trained for an epoch."""
    lab = pair()
    run(lab, TRAIN)
    return lab


LIMITS = (100, 50, 500)
"""Mbit/s: the one in question, one at which it does not pay, and one at which it does."""


def test_an_epoch_and_the_break_even_bandwidth_are_as_predicted(narrow, trained):
    """What is predicted comes from a ping-pong, and from epochs without messages beside the others."""
    sizes, ranks, lengths = trained[0]["sizes"], len(trained), [200_000, 500_000, 1_000_000, 2_000_000]
    run(trained, f"times = [ping_pong(size, 5) for size in {lengths}]")
    alpha, beta = cost.fit(lengths, trained[0]["times"])
    frames = beta.value * WIRE
    print(f"alpha {1e3 * alpha.value:.2f} ms, and {frames:.3f} bytes of the wire for a byte of the message")

    measured = []
    for limit in LIMITS:
        narrow.limit(f"{limit}mbit")
        run(trained, "found = rounds(3)")
        measured.append(np.median(trained[0]["found"], axis=0))
    apart, together, alone = np.array(measured).T

    all_reduces = cost.Cost(2 * (ranks - 1) * len(sizes), cost.ring_cost(ranks).volume)
    for limit, compute, found in zip(LIMITS, apart / STEPS, together, strict=True):
        t_sync = all_reduces.seconds(sum(sizes), alpha.value, frames / (limit * MBIT))
        expected = cost.epoch_time(STEPS * ranks, 1, ranks, compute, t_sync)
        print(f"epoch at {limit} Mbit/s: predicted {expected:.3f} s, measured {found:.3f} s")
        assert expected == pytest.approx(found, rel=0.15)

    t_comp = median(apart) / STEPS
    carried = cost.break_even_bandwidth(all_reduces, sum(sizes), ranks, t_comp, alpha.value)
    expected = carried * frames / MBIT
    slope, gain = np.polyfit([1 / limit for limit in LIMITS], alone - together, 1)
    found = -slope / gain  # where an epoch of all takes as long as that of one process
    print(f"break-even: predicted {expected:.0f} Mbit/s, measured {found:.0f} Mbit/s")
    assert expected == pytest.approx(found, rel=0.20)


def test_a_step_recorded_without_a_limit_is_replayed_as_it_is_on_the_wire(box, trained):
    recorded = []
    for _ in range(3):
        with trained.trace() as trace:
            run(trained, "step()")
        recorded.append(max(e.end for e in replay(trace, Network(0.0, WIRE * PAYLOAD)).events))
    box.limit("100mbit")
    try:
        run(trained, "found = [step() for _ in range(5)]")
    finally:
        box.limit("none")
    expected, found = median(recorded), median(trained[0]["found"])
    print(f"a step at 100 Mbit/s: replayed {expected:.3f} s, measured {found:.3f} s")
    assert expected == pytest.approx(found, rel=0.20)
