"""What a large all_reduce sends between hosts: no more than it must, and as fast as cluster/box/up allows."""

import time
from pathlib import Path

import pytest

from labkit import launch
from labkit.lab.lab import Lab
from tests.faults.test_faults import run

from .conftest import NAMES

pytestmark = pytest.mark.hosts
LIMIT = 100e6 / 8
"""Bytes per second."""
ENOUGH = 0.85
"""Of the limit."""


def sent() -> dict[str, int]:
    """Bytes that each host has sent, as the bridge's end of its cable counted them."""
    count = "/sys/class/net/labkitbox{}/statistics/rx_bytes"
    return {host: int(Path(count.format(number)).read_text()) for number, host in enumerate(NAMES)}


def shares(lab: Lab) -> list[float]:
    """Which share of the limit each host's bytes had, while a large all_reduce ran."""
    seconds = "import time\nbegun = time.perf_counter()\ndist.all_reduce(x)\ntime.perf_counter() - begun"
    before, begun = sent(), time.perf_counter()
    said = run(lab, seconds).said
    whole, after = time.perf_counter() - begun, sent()
    inside = max(float(s.words()) for s in said)
    found = []
    for host in NAMES:
        count = after[host] - before[host]
        found.append(count / inside / LIMIT)
        took = f"{inside:.2f} s ({whole:.2f} s with the cell)"
        print(f"{host} sent {count / 1e6:.1f} MB in {took}: {found[-1]:.0%}")
    return found


def test_a_large_all_reduce_fills_the_link_and_no_more(narrow):
    """What else the machine does makes a share smaller alone: the best of several has to be large."""
    lab = Lab(launch.plan(hosts="miriad2a:1,miriad2b:1"))
    smallest = []
    try:
        run(lab, "x = torch.ones(8_000_000)\ndist.all_reduce(x[:1000])")
        while len(smallest) < 5 and max(smallest, default=0.0) < ENOUGH:
            of_hosts = shares(lab)
            assert max(of_hosts) <= 1.0
            smallest.append(min(of_hosts))
    finally:
        lab.stop()
    assert max(smallest) >= ENOUGH, smallest


FLAT_RING = """
from labkit.algorithms.ring import ring
from labkit.schedule import run
run(ring(4), x)
"""


def across(lab: Lab, cell: str, nbytes: int) -> list[float]:
    """What each host sent while the cell ran, in tensors of so many bytes."""
    before = sent()
    run(lab, cell).raise_for_failure()
    after = sent()
    return [(after[host] - before[host]) / nbytes for host in NAMES]


def test_two_ranks_of_a_host_send_their_sum_across_once(box):
    """A ring of four sends 2 * 3/4 of the tensor over each link; hosts that sum up inside first need only 1.

    What else passes is the cell itself, acknowledgements, and headers: 66 bytes of a frame's 1,514.
    """
    lab = Lab(launch.plan(hosts="miriad2a:2,miriad2b:2"))
    try:
        run(lab, "x = torch.ones(8_000_000)\ndist.all_reduce(x[:1000])")
        once, ring = (across(lab, cell, 32_000_000) for cell in ("dist.all_reduce(x)", FLAT_RING))
    finally:
        lab.stop()
    print(f"all_reduce {once}, flat ring {ring}")
    assert all(1.0 <= tensors < 1.1 for tensors in once)
    assert all(1.5 <= tensors < 1.65 for tensors in ring)
