"""The limit of cluster/box/up --bandwidth is what a large all_reduce gets, and it uses it."""

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


def sent() -> dict[str, int]:
    """Bytes that each host has sent, as the bridge's end of its cable counted them."""
    count = "/sys/class/net/labkitbox{}/statistics/rx_bytes"
    return {host: int(Path(count.format(number)).read_text()) for number, host in enumerate(NAMES)}


def test_a_large_all_reduce_fills_the_link_and_no_more(narrow):
    lab = Lab(launch.plan(hosts="miriad2a:1,miriad2b:1"))
    try:
        run(lab, "x = torch.ones(8_000_000)\ndist.all_reduce(x[:1000])")
        seconds = "import time\nbegun = time.perf_counter()\ndist.all_reduce(x)\ntime.perf_counter() - begun"
        before = sent()
        begun = time.perf_counter()
        said = run(lab, seconds).said
        whole = time.perf_counter() - begun
        after = sent()
        inside = max(float(s.words()) for s in said)
    finally:
        lab.stop()
    for host in NAMES:
        count = after[host] - before[host]
        share = count / inside / LIMIT
        print(
            f"{host} sent {count / 1e6:.1f} MB in {inside:.2f} s ({whole:.2f} s with the cell): {share:.0%}"
        )
        assert 0.85 <= share <= 1.0
