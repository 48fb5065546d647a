"""A step of DistributedDataParallel on GPUs: "mpi" trains what gloo trains; the times of both are noted."""

import statistics

import pytest

STEPS = """
import time
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def step_of(group):
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), process_group=group)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(2, 16, 1024).to(device)

    def step():
        start = time.perf_counter()
        optimiser.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimiser.step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    return model, step

ways = {"mpi": step_of(None), "gloo": step_of(dist.new_group(backend="gloo"))}
times = {name: [] for name in ways}
for turn in range(25):  # in turns: both see the same machine
    for name, (model, step) in ways.items():
        dist.barrier()
        times[name].append(step())
weights = [nn.utils.parameters_to_vector(model.parameters()) for model, step in ways.values()]
apart = (weights[0] - weights[1]).abs().max().item()
"""


@pytest.mark.parametrize(
    "through",
    [pytest.param("host", marks=pytest.mark.gpu), pytest.param("nccl", marks=pytest.mark.gpu(2))],
)
def test_a_step(gpu_lab, px, record_property, through):
    lab = gpu_lab(2, through=through)
    px(lab, STEPS)
    assert max(lab[:]["apart"]) < 1e-4
    mpi, gloo = (1e3 * median(lab[:][f"times['{way}'][5:]"]) for way in ("mpi", "gloo"))
    record_property("mpi_ms", round(mpi, 2))
    record_property("gloo_ms", round(gloo, 2))
    record_property("gloo_over_mpi", round(gloo / mpi, 2))


def median(times: list[list[float]]) -> float:
    """Of the steps, each as long as on the rank that took longest."""
    return statistics.median(max(step) for step in zip(*times, strict=True))
