"""DeviceMesh in one and two dimensions, and DTensor upon it."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from .table import case
from .world import close, equal


@case()
def a_mesh_of_one_dimension_is_the_world(w):
    mesh = init_device_mesh("cpu", (w.size,), mesh_dim_names=("data",))
    assert mesh.get_local_rank() == w.rank
    t = torch.tensor([w.rank])
    dist.all_reduce(t, group=mesh.get_group("data"))
    assert t.item() == sum(range(w.size))


@case(sizes=(4,))
def a_mesh_of_two_dimensions_has_rows_and_columns(w):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    row, column = divmod(w.rank, 2)
    for name, members in (("row", [column, column + 2]), ("column", [2 * row, 2 * row + 1])):
        group = mesh[name].get_group()
        assert dist.get_process_group_ranks(group) == members
        t = torch.tensor([w.rank])
        dist.all_reduce(t, group=group)
        assert t.item() == sum(members)


@case(sizes=(4,))
def a_mesh_can_be_flattened(w):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    flat = mesh["a", "b"]._flatten("ab")
    t = torch.tensor([1])
    dist.all_reduce(t, group=flat.get_group())
    assert t.item() == 4


@case()
def a_mesh_from_a_list_of_ranks(w):
    mesh = DeviceMesh("cpu", list(reversed(range(w.size))))
    assert mesh.size() == w.size


@case()
def a_sharded_tensor_is_whole_again_when_replicated(w):
    mesh = init_device_mesh("cpu", (w.size,))
    whole = w.data(0, w.size * 2 + 1, 6)
    for dimension in (0, 1):
        sharded = distribute_tensor(whole, mesh, [Shard(dimension)])
        equal(sharded.full_tensor(), whole)
        again = sharded.redistribute(mesh, [Shard(1 - dimension)])
        equal(again.full_tensor(), whole)


@case()
def partial_sums_become_a_sum(w):
    from torch.distributed.tensor import DTensor

    mesh = init_device_mesh("cpu", (w.size,))
    partial = DTensor.from_local(w.mine(w.size * 2), mesh, [Partial()])
    total = torch.stack(w.all(w.size * 2)).sum(0)
    equal(partial.redistribute(mesh, [Replicate()]).to_local(), total)
    equal(partial.redistribute(mesh, [Shard(0)]).to_local(), total.chunk(w.size)[w.rank])


@case()
def a_sharded_product_equals_the_product(w):
    mesh = init_device_mesh("cpu", (w.size,))
    a, b = w.data(0, 8, w.size * 3), w.data(1, w.size * 3, 5)
    left, right = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    close((left @ right).full_tensor(), a @ b)


@case(sizes=(4,))
def a_tensor_sharded_over_both_dimensions(w):
    mesh = init_device_mesh("cpu", (2, 2))
    whole = w.data(0, 6, 8)
    sharded = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    assert sharded.to_local().shape == (3, 4)
    equal(sharded.full_tensor(), whole)
    equal((sharded * 2 + 1).sum().full_tensor(), (whole * 2 + 1).sum())
