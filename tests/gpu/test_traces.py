"""Traces of NCCL: its collectives and messages, with the lines that called them."""

import pytest
import torch

from labkit.trace import COMPUTE


def calls(trace) -> list[tuple[int, str, str]]:
    return sorted((e.rank, e.verb, e.place) for e in trace.events if e.verb != COMPUTE)


@pytest.mark.gpu
def test_collectives_that_mpi_leaves_to_nccl(gpu_lab, px):
    lab = gpu_lab(torch.cuda.device_count(), through="nccl")
    px(lab, "x = torch.ones(1000, device=device)\ndist.all_reduce(x)")
    with lab.trace() as trace:
        px(lab, "dist.all_reduce(x)\ndist.broadcast(x, src=0)")
    expected = {"all_reduce": "line 2: dist.all_reduce(x)", "broadcast": "line 3: dist.broadcast(x, src=0)"}
    assert calls(trace) == [(rank, *call) for rank in range(len(lab)) for call in expected.items()]
    assert {e.bytes for e in trace.events if e.verb in expected} == {4000}


@pytest.mark.gpu(2)
def test_messages_and_collectives_of_a_group_of_nccl(gpu_lab, px):
    lab = gpu_lab(2)
    px(lab, "g, x = dist.new_group(backend='nccl'), torch.ones(1000, device=device)")
    px(lab, "dist.all_reduce(x, group=g)")
    with lab.trace() as trace:
        px(lab, "(dist.send if rank == 0 else dist.recv)(x, 1 - rank, group=g)\ndist.all_reduce(x, group=g)")
    assert [call[:2] for call in calls(trace)] == [
        (0, "all_reduce"),
        (0, "send"),
        (1, "all_reduce"),
        (1, "recv"),
    ]
    assert [(sent.rank, received.rank) for sent, received in trace.messages] == [(0, 1)]
