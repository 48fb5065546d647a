"""On two hosts the axis that sends most belongs inside one: by the factor that its bytes predict."""

from pathlib import Path

import pytest

from labkit import launch
from labkit.algorithms import placement_seconds
from labkit.lab.lab import Lab
from tests.faults.test_faults import run

from .conftest import NAMES

pytestmark = pytest.mark.nightly
MBIT = 1
L, D, N = 2, 48, 864
"""Blocks, width, samples."""
SETUP = f"""
import time
from labkit.algorithms import SplitBlock, sync_on_mesh
from torch.distributed.device_mesh import init_device_mesh

def placed(*names):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
    layers = [(torch.nn.Linear({D}, {4 * D}), torch.nn.Linear({4 * D}, {D})) for _ in range({L})]
    model = torch.nn.Sequential(*(SplitBlock(*block, mesh) for block in layers)).double()
    x = torch.randn({N}, {D}, dtype=torch.float64).chunk(2)[mesh.get_local_rank("data")]
    def step():
        model.zero_grad()
        model(x).square().mean().backward()
        sync_on_mesh([p.grad for p in model.parameters()], mesh)
    return step

def seconds(step):
    dist.barrier()
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun

steps = placed("data", "tensor"), placed("tensor", "data")
[step() for step in steps]
"""


def crossed() -> int:
    """Bytes that both hosts have sent, as the bridge's end of their cables counted them."""
    count = "/sys/class/net/labkitbox{}/statistics/rx_bytes"
    return sum(int(Path(count.format(number)).read_text()) for number in range(len(NAMES)))


@pytest.fixture
def on_two_hosts(box):
    lab = Lab(launch.plan(hosts=",".join(f"{name}:2" for name in NAMES)))
    run(lab, SETUP)
    box.limit(f"{MBIT}mbit")
    yield lab
    box.limit("none")
    lab.stop()


def test_the_wrong_axis_outside_costs_what_its_bytes_predict(on_two_hosts):
    axes = {
        "data": (2, L * (8 * D * D // 2 + 4 * D // 2 + D) * 8),
        "tensor": (4 * L - 2, (2 * L - 1) * N // 2 * D * 8),
    }
    slow = 0.0, 2 * 8 / (MBIT * 1e6)  # two ranks share a host's link
    bytes_seen, found, expected = [], [], []
    for number, inside in enumerate(("tensor", "data")):
        tries = []
        for _ in range(3):  # what else the machine does makes each longer, and has messages sent again
            before = crossed()
            run(on_two_hosts, f"took = seconds(steps[{number}])")
            tries.append((crossed() - before, max(on_two_hosts[:]["took"])))
        for best, of_this in zip((bytes_seen, found), zip(*tries, strict=True), strict=True):
            best.append(min(of_this))
        expected.append(placement_seconds(axes, inside, (0.0, 0.0), slow))
        print(f"{inside} inside: {expected[-1]:.2f} s predicted, {found[-1]:.2f} s measured")
    factor = expected[1] / expected[0]
    assert factor > 3
    assert found[1] / found[0] == pytest.approx(factor, rel=0.2)
    assert bytes_seen[1] / bytes_seen[0] == pytest.approx(factor, rel=0.1)
