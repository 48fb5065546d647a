"""Tensors on GPUs: NCCL where each rank has a GPU of its own, through the host's memory otherwise.

The MPI wheels cannot read GPU memory. A group makes its NCCL backend at the first CUDA tensor, on
torch's own store; NCCL does not share a GPU between ranks, so where ranks share one, tensors are copied to
the host, sent by MPI and copied back (see `buffers.dense`). LABKIT_MPI_CUDA=nccl or host decides
by hand. Messages always go through the host: NCCL knows no tags and no receive from any rank, and a ring
in which each rank begins with a send hangs there while its pairs connect. On a limited network collectives
go through the host, too.

Run with one GPU, shared by ranks or used by one; not with several, where NCCL has more than one rank.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from labkit.mpi.messages import slow_link
from labkit.mpi.torch_internals import plain_group

if TYPE_CHECKING:
    from labkit.mpi.group import Group

# Verbs whose work NCCL does: all collectives that take tensors.
VERBS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced",
    "_allgather_base", "all_gather_single", "all_gather_single_coalesced", "allgather_into_tensor_coalesced",
    "gather", "scatter", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base",
    "all_to_all_single",
)  # fmt: skip


def gpus() -> str:
    """Which GPUs this process sees, as text that is equal where they are the same."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"{os.environ.get('CUDA_VISIBLE_DEVICES', '')}:{count}"


def one_each(hosts: Sequence[str], seen: Sequence[str]) -> bool:
    """Whether each rank can have a GPU of its own; `hosts` and `seen` have an entry for each rank."""
    if os.environ.get("LABKIT_MPI_CUDA"):
        return os.environ["LABKIT_MPI_CUDA"] == "nccl"
    here: Counter[str] = Counter()
    for host, text in set(zip(hosts, seen, strict=True)):
        here[host] += int(text.rpartition(":")[2])
    return all(here[host] >= ranks for host, ranks in Counter(hosts).items())


def nccl(group: Group) -> dist.ProcessGroup:
    """A plain group of torch's with NCCL in it, made at the first use. Collective over the group."""
    if group.nccl is None:
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=group.seconds)
        store = dist.PrefixStore("nccl/", group.store)
        kind = dist.ProcessGroup.BackendType.NCCL
        backend = dist.ProcessGroupNCCL(store, group.me, group.members, options)
        name = f"{group.named}/nccl"  # a trace counts its calls by themselves
        group.nccl = plain_group(kind, "cuda", backend, store, group.me, group.members, name)
    return group.nccl


def with_nccl(cls: type[Group]) -> type[Group]:
    """Class decorator: each verb goes to NCCL for CUDA tensors, where torch and the world allow it."""
    if not torch.backends.cuda.is_built():
        return cls
    for name in VERBS:
        setattr(cls, name, _routed(name, getattr(cls, name)))
    return cls


def _routed(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def routed(group: Group, tensors: Any, *args: Any) -> Any:
        if group.world.gpu_each and slow_link.link is None and on_gpu(tensors, *args):
            return getattr(nccl(group), name)(tensors, *args)
        return verb(group, tensors, *args)

    return routed


def on_gpu(*given: Any) -> bool:
    """Whether the first tensor among a verb's arguments is a dense one on a GPU.

    Lists may be empty, as gather's are. NCCL has no verb for sparse ones.
    """
    for one in given:
        if isinstance(one, torch.Tensor):
            return one.is_cuda and not one.is_sparse
        if isinstance(one, (list, tuple)) and one:
            return on_gpu(*one)
    return False
