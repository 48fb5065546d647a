"""A lab on GPUs: a rank for each, more ranks than GPUs, and memory that is free again after it."""

import time

import pytest
import torch

from labkit import launch
from labkit.lab.lab import Lab
from tests.gpu.machine import nvidia_smi

SUM = "x = torch.full((4,), float(rank), device=device)\ndist.all_reduce(x)\ntotal = x[0].item()"


def devices(lab: Lab) -> list[str]:
    return [rank.device for rank in lab.ranks]


@pytest.mark.gpu
def test_one_rank_on_one_gpu(gpu_lab, px):
    lab = gpu_lab(1)
    px(lab, SUM)
    assert devices(lab) == ["cuda:0"] and lab[:]["total"] == [0.0]


@pytest.mark.gpu
def test_two_ranks_share_a_gpu_or_have_one_each(gpu_lab, px):
    lab = gpu_lab(2)
    px(lab, SUM)
    assert devices(lab) == ["cuda:0", f"cuda:{1 % torch.cuda.device_count()}"]
    assert lab[:]["total"] == [1.0, 1.0]


@pytest.mark.gpu
def test_more_ranks_than_gpus_share_them(gpu_lab, px):
    count = torch.cuda.device_count()
    lab = gpu_lab(2 * count)
    px(lab, SUM)
    assert devices(lab) == [f"cuda:{rank % count}" for rank in range(2 * count)]
    assert lab[:]["total"] == [float(sum(range(2 * count)))] * (2 * count)


@pytest.mark.gpu(2)
def test_a_rank_for_each_gpu(gpu_lab, px):
    count = torch.cuda.device_count()
    lab = gpu_lab(count)
    px(lab, SUM)
    assert devices(lab) == [f"cuda:{rank}" for rank in range(count)]
    assert lab[:]["total"] == [float(sum(range(count)))] * count
    assert lab[:]["torch.cuda.current_device()"] == list(range(count))


@pytest.mark.gpu
def test_the_notebook_fetches_tensors_without_their_gpu(gpu_lab, px):
    lab = gpu_lab(2)
    px(lab, "x = torch.full((2,), float(rank), device=device)\nboth = [x, torch.nn.Parameter(x)]")
    assert [x.tolist() for x in lab[:]["x"]] == [[0.0, 0.0], [1.0, 1.0]]
    assert {part.device.type for part in [*lab[:]["x"], *lab[0]["both"], lab[1]["both[1]"]]} == {"cpu"}


@pytest.mark.gpu
def test_compare_looks_at_tensors_on_gpus(gpu_lab, px):
    lab = gpu_lab(2)
    px(lab, "same = torch.ones(5, device=device)\nother = same * rank")
    assert lab.compare("same").equal and lab.compare("other").difference == 1.0


@pytest.mark.gpu
def test_stop_frees_the_memory(px, record_property):
    before = free_mb()
    lab = Lab(launch.plan(2, device="cuda"))
    try:
        px(lab, "x = torch.ones(2**28, dtype=torch.uint8, device=device)\ntorch.cuda.synchronize()")
        during, pids = free_mb(), {str(rank.pid) for rank in lab.ranks}
    finally:
        lab.stop()
    end = time.monotonic() + 30
    while free_mb() < before - 64 and time.monotonic() < end:
        time.sleep(0.2)
    for name, value in {"before": before, "during": during, "after": free_mb()}.items():
        record_property(f"free_mb_{name}", value)
    assert during < before - 256
    assert free_mb() >= before - 64
    assert not pids & set(nvidia_smi("--query-compute-apps=pid"))


def free_mb() -> int:
    return torch.cuda.mem_get_info(0)[0] >> 20
