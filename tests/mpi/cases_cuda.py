"""The way of tensors on GPUs, with gloo in the place of NCCL: which verbs go there, and with what."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.mpi import cuda, work
from labkit.mpi.messages import slow_link
from tests.gpu.verbs import COLLECTIVES, MESSAGES, all_reduce, barrier, given

from .table import case
from .world import equal


@contextmanager
def gloo_as_nccl() -> Iterator[list[str]]:
    """As where each rank has a GPU and all tensors are there; the names of the verbs that left MPI."""
    asked: list[str] = []
    played = dist.new_group(backend="gloo")

    class Noted:
        def __getattr__(self, name: str):
            asked.append(name)
            return getattr(played, name)

    group = dist.group.WORLD
    own = {name: verb for name, verb in vars(type(group)).items() if name in cuda.VERBS}
    all_there = {"on_gpu": lambda *given: True, "nccl": lambda group: Noted()}
    built = patch.object(torch.backends.cuda, "is_built", lambda: True)
    with built, patch.multiple(cuda, **all_there), patch.object(group.world, "gpu_each", True):
        try:
            cuda.with_nccl(type(group))
            yield asked
        finally:
            for name in cuda.VERBS:
                if name in own:
                    setattr(type(group), name, own[name])
                elif name in vars(type(group)):
                    delattr(type(group), name)


@case(gloo=False)
def every_collective_goes_to_nccl_and_gives_the_same(w):
    expected = [verb(given("cpu")) for verb in COLLECTIVES]
    with gloo_as_nccl() as asked:
        for verb, right in zip(COLLECTIVES, expected, strict=True):
            asked.clear()
            equal(verb(given("cpu")), right)
            assert asked or verb is barrier, verb


@case(gloo=False)
def messages_stay_with_mpi(w):
    with gloo_as_nccl() as asked:
        for verb in MESSAGES:
            verb(given("cpu"))
    assert not asked


@case(gloo=False)
def a_limited_network_is_no_way_around(w):
    slow_link.limit(1e9, 0.0)
    try:
        with gloo_as_nccl() as asked:
            all_reduce(given("cpu"))
    finally:
        slow_link.limit(float("inf"), 0.0)
    assert not asked


@case(sizes=(2,), gloo=False)
def tensors_on_a_gpu_are_found_in_what_verbs_are_given(w):
    here = torch.ones(1)
    with FakeTensorMode():
        there = torch.empty(1, device="cuda:0")
    assert cuda.on_gpu([there]) and cuda.on_gpu([], [there]) and cuda.on_gpu([[there]], [here])
    assert not cuda.on_gpu([here], [there]) and not cuda.on_gpu([], None)
    assert work._gpus([here, there]) == work._gpus([[there]]) == [torch.device("cuda:0")]
    assert work._gpus([here]) == work._gpus([]) == []
