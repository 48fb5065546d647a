"""What goes wrong on a GPU ends the cell, with the reason, and the next cell runs."""

import threading

import pytest
import torch

from labkit.lab.cell import follow
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError

SLEEP = "for _ in range({}):\n    torch.cuda._sleep(10**9)  # about half a second of the GPU's time, queued\n"
SUM = "x = torch.ones(2, device=device)\ndist.all_reduce(x)\nx[0].item()"


def is_usable(lab: Lab, px) -> bool:
    return px(lab, SUM) == f"[ranks 0-{len(lab) - 1}] {float(len(lab))}"


@pytest.mark.gpu
def test_the_cell_after_one_that_ran_out_of_memory(gpu_lab, px):
    lab = gpu_lab(2)
    more = "torch.cuda.mem_get_info()[0] + 2**30"
    with pytest.raises(CellError, match=r"^rank 1: OutOfMemoryError"):
        px(lab, f"kept = rank\nif rank == 1:\n    torch.empty({more}, dtype=torch.uint8, device=device)")
    assert lab[:]["kept"] == [0, 1]
    assert is_usable(lab, px)


@pytest.mark.gpu
def test_a_deadlock_with_kernels_in_flight(gpu_lab, px):
    lab = gpu_lab(2, through="host")
    cell = SLEEP.format(6) + "dist.recv(torch.zeros(1, device=device), src=1 - rank)"
    with pytest.raises(CellError, match=r"^deadlock: .*\nrank 0 in recv from rank 1, line 4"):
        px(lab, cell)
    assert is_usable(lab, px)


@pytest.mark.gpu
def test_a_result_that_is_used_before_it_is_there(gpu_lab, px):
    lab = gpu_lab(2, through="host")
    cell = "x = torch.ones(2, device=device)\nwork = dist.all_reduce(x, async_op=True)\nx + 1\nwork.wait()"
    with pytest.raises(
        CellError, match=r"^ranks 0-1: HazardError: all_reduce(.*\n)*.*before wait\(\).*line 3"
    ):
        px(lab, cell)
    assert is_usable(lab, px)


@pytest.mark.gpu
def test_an_interrupt_with_kernels_in_flight(gpu_lab, px):
    lab = gpu_lab(2)
    px(lab, "kept = rank")
    outcome = interrupted(lab, SLEEP.format(6) + "import time\nwhile True:\n    time.sleep(0.01)")
    assert outcome.stopped.startswith("interrupted") and not outcome.after
    assert lab[:]["kept"] == [0, 1]
    assert is_usable(lab, px)


@pytest.mark.gpu
def test_an_interrupt_of_ranks_that_wait_for_their_gpu(gpu_lab, px):
    """In CUDA's code, where no signal is heard: then the ranks are replaced."""
    lab = gpu_lab(2)
    outcome = interrupted(lab, SLEEP.format(100) + "torch.cuda.synchronize()")
    assert outcome.stopped.startswith("interrupted")
    assert is_usable(lab, px)


@pytest.mark.gpu(2)
def test_a_collective_of_nccl_that_a_rank_leaves_out(gpu_lab, px):
    lab = gpu_lab(2, through="nccl")
    assert is_usable(lab, px)  # and now NCCL is connected
    with pytest.raises(CellError, match="deadline|deadlock"):
        px(lab, "if rank == 0:\n    dist.all_reduce(x)\n    x[0].item()", "--deadline 5")
    assert is_usable(lab, px)


def interrupted(lab: Lab, cell: str):
    """How a cell ends that is interrupted after two seconds, as by the notebook's stop button."""
    lab.require_running()
    noted = threading.Event()
    threading.Timer(2, noted.set).start()
    result = lab[:].execute(cell, silent=False, block=False)
    return follow(lab, result, 90, interrupted=noted)


@pytest.mark.gpu
def test_an_error_of_a_kernel_is_told(gpu_lab, px):
    """A failed assertion on the GPU ends its process's use of it: new ranks are the way out."""
    lab = gpu_lab(2, through="host")
    with pytest.raises(CellError, match=r"^rank 1: .*CUDA error|^rank 1: AcceleratorError"):
        px(
            lab,
            "if rank == 1:\n    torch.zeros(2, device=device)[torch.tensor([5], device=device)].cpu()",
        )
    lab.restart()
    assert is_usable(lab, px) and torch.cuda.is_available()
