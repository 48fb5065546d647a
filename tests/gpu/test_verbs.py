"""Every verb on tensors that are on a GPU gives what it gives on the CPU, and leaves it on the GPU."""

import re
from pathlib import Path

import pytest
import torch

from labkit.lab.outcome import CellError
from tests.gpu import verbs

SOURCE = Path(verbs.__file__).read_text()
MESSAGES = [verb.__name__ for verb in verbs.MESSAGES]
COLLECTIVES = [verb.__name__ for verb in verbs.COLLECTIVES]
ON_A_LIMITED_NETWORK = [verb.__name__ for verb in verbs.ON_A_LIMITED_NETWORK]
UNABLE = re.compile(r"not (?:yet )?(?:supported|implemented)|(?:does|do) not support|unsupported", re.I)


def call(verb: str) -> str:
    """The cell that calls it on both devices; its results and the rank's group are there afterwards."""
    return (
        f"{SOURCE}\n"
        f"there, here = {verb}(given(device)), {verb}(given('cpu'))\n"
        f"assert there.device == device, there.device\n"
        f"assert torch.equal(there.cpu(), here), (there, here)\n"
    )


def by_nccl(lab) -> list[bool]:
    """Whether each rank's default group has used NCCL."""
    return lab[:]["dist.group.WORLD.nccl is not None"]


@pytest.mark.gpu
@pytest.mark.parametrize("verb", [*MESSAGES, *COLLECTIVES])
def test_mpi_through_the_host(gpu_lab, px, verb):
    lab = gpu_lab(3, through="host")
    px(lab, call(verb))
    assert not any(by_nccl(lab))


@pytest.mark.gpu
@pytest.mark.parametrize("verb", ON_A_LIMITED_NETWORK)
def test_mpi_on_a_limited_network(gpu_lab, px, verb):
    """Where schedules of messages run, and a thread of them for what is asynchronous."""
    lab = gpu_lab(3, through="host")
    lab.network(bandwidth="100Mbit/s")
    try:
        px(lab, call(verb))
    finally:
        lab.network()


@pytest.mark.gpu
@pytest.mark.parametrize("verb", COLLECTIVES)
def test_mpi_by_nccl(gpu_lab, px, verb):
    """With a rank for each GPU; one alone still shows that torch takes the calls."""
    lab = gpu_lab(torch.cuda.device_count(), through="nccl")
    px(lab, call(verb))
    assert all(by_nccl(lab)) or verb == "barrier"


@pytest.mark.gpu(2)
@pytest.mark.parametrize("verb", MESSAGES)
def test_messages_of_mpi_beside_nccl(gpu_lab, px, verb):
    px(gpu_lab(torch.cuda.device_count(), through="nccl"), call(verb))


@pytest.mark.gpu
@pytest.mark.parametrize("verb", COLLECTIVES)
def test_gloo(gpu_lab, px, verb):
    try:
        px(gpu_lab(2, "gloo"), call(verb))
    except CellError as error:
        if not UNABLE.search(str(error)):
            raise
        pytest.skip(f"gloo cannot: {str(error).splitlines()[0]}")


@pytest.mark.gpu
@pytest.mark.parametrize("verb", MESSAGES)
def test_messages_of_gloo_are_refused(gpu_lab, px, verb):
    """Gloo hands the GPU's address to a socket, and may end the process."""
    with pytest.raises(CellError, match="^ranks 0-1: LabError: .* with gloo"):
        px(gpu_lab(2, "gloo"), call(verb))


@pytest.mark.gpu(2)
def test_a_group_of_nccl_alone(gpu_lab, px):
    lab = gpu_lab(torch.cuda.device_count())
    px(
        lab,
        "g = dist.new_group(backend='nccl')\nx = torch.ones(3, device=device)\ndist.all_reduce(x, group=g)",
    )
    assert lab[:]["x[0].item()"] == [len(lab)] * len(lab)


@pytest.mark.gpu
def test_a_limited_network_limits_tensors_on_a_gpu(gpu_lab, px):
    """Also where NCCL could sum them, which no limit reaches."""
    lab = gpu_lab(2)
    px(lab, "x = torch.ones(1_000_000, device=device)\ndist.all_reduce(x)")
    lab.network(bandwidth="80Mbit/s")
    try:
        px(lab, "import time\nstart = time.time()\ndist.all_reduce(x)\ntaken = time.time() - start")
    finally:
        lab.network()
    assert min(lab[:]["taken"]) > 0.3 and lab[:]["x[0].item()"] == [4.0, 4.0]
