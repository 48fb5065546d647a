"""A server hears from workers on its own host and on another: each message, whatever its size."""

import pytest

from labkit import launch
from labkit.lab.lab import Lab

pytestmark = pytest.mark.hosts

SERVE = """
heard, x = [], torch.zeros({size}, dtype=torch.float64)
for n in range(20):
    if rank == 0:
        for _ in range(world_size - 1):
            worker = dist.recv(x)
            heard.append((worker, x[-1].item()))
            dist.send(x, worker)
    else:
        x[-1] = n
        dist.send(x, 0)
        dist.recv(x, 0)
"""


@pytest.fixture(scope="module")
def four(box):
    lab = Lab(launch.plan(hosts="miriad2a:2,miriad2b:2"))
    yield lab
    lab.stop()


@pytest.mark.parametrize("size", [1, 100, 1000, 100_000])
def test_a_server_hears_everybody(four, size):
    four[:].execute(SERVE.format(size=size)).get(30)
    assert sorted(four[0]["heard"]) == sorted((worker, n) for worker in (1, 2, 3) for n in range(20))
