"""On any mesh a step is that of one process; what goes along each axis is known to the byte."""

import pytest

from labkit.algorithms.mesh import placement_seconds

pytestmark = pytest.mark.timeout(180)

SETUP = """
from labkit.algorithms import SplitBlock, sync_on_mesh
from torch.distributed.device_mesh import init_device_mesh

def one_process(blocks, x):
    for up, down in blocks:
        x = x + down(up(x).relu())
    return x


torch.manual_seed(0)
blocks = [(torch.nn.Linear(6, 24).double(), torch.nn.Linear(24, 6).double()) for _ in range(2)]
X, Y = torch.randn(2, 12, 6, dtype=torch.float64)
mesh = init_device_mesh("cpu", {shape}, mesh_dim_names=("data", "tensor"))
model = torch.nn.Sequential(*(SplitBlock(up, down, mesh) for up, down in blocks))
x, y = (t.chunk(mesh["data"].size())[mesh.get_local_rank("data")] for t in (X, Y))
"""
STEP = """
(model(x) - y).square().mean().backward()
sync_on_mesh([p.grad for p in model.parameters()], mesh)
"""
APART = """
whole = torch.nn.ModuleList(layer for block in blocks for layer in block)
(one_process(blocks, X) - Y).square().mean().backward()
with torch.no_grad():
    for p in *model.parameters(), *whole.parameters():
        p -= 0.5 * p.grad
right = torch.nn.Sequential(*(SplitBlock(up, down, mesh) for up, down in blocks))
apart = max(((a - b).norm() / b.norm()).item() for a, b in zip(model.parameters(), right.parameters()))
"""
SHAPES = [(1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (2, 2), (4, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids="{0[0]} x {0[1]}".format)
def test_a_step_is_that_of_one_process(labs, ask, shape):
    statements = SETUP.format(shape=shape) + STEP + APART
    assert max(ask(labs(shape[0] * shape[1])[:], "apart", statements)) < 1e-10


def test_each_axis_carries_what_it_must(labs):
    """Activations along tensor, but for the input's gradient; along data the gradients of a rank's parts."""
    lab = labs(4)
    lab[:].execute(SETUP.format(shape=(2, 2)), block=True)
    lab.network("1Gbit/s")
    try:
        with lab.trace() as trace:
            lab[:].execute(STEP, block=True)
    finally:
        lab.network()
    sends = [e for e in trace.events if e.verb == "send"]
    for rank in range(4):
        along = {
            bit: sum(e.bytes for e in sends if (e.rank, *e.peers) == (rank, rank ^ bit)) for bit in (1, 2)
        }
        assert along == {1: 3 * 6 * 6 * 8, 2: 2 * (8 * 6 * 6 // 2 + 4 * 6 // 2 + 6) * 8}
    assert sum(e.bytes for e in sends) == sum(trace.bytes_sent) and len(trace.messages) == 4 * (2 * 3 + 2)


def test_the_axis_that_loses_most_outside_belongs_inside():
    axes = {"data": (2, 1e6), "tensor": (30, 8e6)}
    fast, slow = (1e-6, 1e-9), (1e-3, 1e-6)
    assert min(axes, key=lambda axis: placement_seconds(axes, axis, fast, slow)) == "tensor"
    assert placement_seconds(axes, "data", fast, slow) == pytest.approx(30e-3 + 8 + 2e-6 + 1e-3)
