"""Collectives of Python objects."""

import torch
import torch.distributed as dist

from .table import case
from .world import World, equal


def thing(w: World, rank: int) -> dict:
    """Something whose pickle has another length on every rank."""
    return {"rank": rank, "text": "x" * (rank * 1000), "tensor": w.data(rank, rank + 1), "none": None}


def same(found: dict, expected: dict) -> None:
    equal(found["tensor"], expected["tensor"])
    assert {**found, "tensor": 0} == {**expected, "tensor": 0}


@case()
def all_gather_object(w):
    out = [None] * w.size
    dist.all_gather_object(out, thing(w, w.rank))
    for r in range(w.size):
        same(out[r], thing(w, r))


@case()
def gather_object(w):
    out = [None] * w.size if w.rank == 1 else None
    dist.gather_object(thing(w, w.rank), out, dst=1)
    for r in range(w.size if out else 0):
        same(out[r], thing(w, r))


@case()
def broadcast_object_list(w):
    root = w.size - 1
    objects = [thing(w, root), "two", 3] if w.rank == root else [None] * 3
    dist.broadcast_object_list(objects, src=root)
    same(objects[0], thing(w, root))
    assert objects[1:] == ["two", 3]


@case()
def scatter_object_list(w):
    out = [None]
    dist.scatter_object_list(out, [thing(w, r) for r in range(w.size)] if w.rank == 0 else None, src=0)
    same(out[0], thing(w, w.rank))


@case()
def send_and_recv_object_list(w):
    if w.rank == 0:
        dist.send_object_list([thing(w, 0), "end"], dst=1)
    if w.rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0
        same(got[0], thing(w, 0))
        assert got[1] == "end"


@case(sizes=(3, 4))
def objects_within_a_sub_group(w):
    members = [w.size - 1, 0]
    group = dist.new_group(members)
    if w.rank in members:
        out = [None, None]
        dist.all_gather_object(out, w.rank, group=group)
        assert sorted(out) == sorted(members)
        dist.destroy_process_group(group)
    dist.barrier()


@case()
def large_objects(w):
    objects = [torch.arange(200_000) if w.rank == 0 else None]
    dist.broadcast_object_list(objects, src=0)
    equal(objects[0], torch.arange(200_000))
