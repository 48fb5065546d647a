"""Functional collectives: out of place, traceable, differentiable."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as f
import torch.distributed.nn.functional as dnn

from .table import case
from .world import close, equal, fold


@case()
def functional_all_reduce_leaves_its_input(w):
    t = w.mine(3, 4)
    out = f.wait_tensor(f.all_reduce(t, "sum", dist.group.WORLD))
    equal(out, fold(torch.add, w.all(3, 4)))
    equal(t, w.mine(3, 4))


@case(gloo=False)
def functional_average_and_maximum(w):
    t = w.mine(5)
    close(f.wait_tensor(f.all_reduce(t, "avg", dist.group.WORLD)), fold(torch.add, w.all(5)) / w.size)
    equal(f.wait_tensor(f.all_reduce(t, "max", dist.group.WORLD)), fold(torch.maximum, w.all(5)))


@case()
def functional_all_gather_along_any_dimension(w):
    for dimension in (0, 1):
        out = f.all_gather_tensor(w.mine(2, 3), dimension, dist.group.WORLD)
        equal(f.wait_tensor(out), torch.cat(w.all(2, 3), dimension))


@case()
def functional_reduce_scatter(w):
    out = f.reduce_scatter_tensor(w.mine(w.size * 2, 3), "sum", 0, dist.group.WORLD)
    equal(f.wait_tensor(out), fold(torch.add, w.all(w.size * 2, 3)).chunk(w.size)[w.rank])


@case()
def functional_all_to_all(w):
    out = f.all_to_all_single(w.mine(w.size, 2), None, None, dist.group.WORLD)
    equal(f.wait_tensor(out), torch.stack([t[w.rank] for t in w.all(w.size, 2)]))


@case()
def functional_broadcast(w):
    out = f.wait_tensor(f.broadcast(w.mine(4), 1, dist.group.WORLD))
    equal(out, w.data(1, 4))


@case()
def coalesced_functional_collectives(w):
    outs = f.all_reduce_coalesced([w.mine(2, salt=0), w.mine(3, salt=1)], "sum", dist.group.WORLD)
    for i, out in enumerate(outs):
        equal(f.wait_tensor(out), fold(torch.add, w.all(i + 2, salt=i)))
    outs = f.all_gather_into_tensor_coalesced([w.mine(2, salt=0), w.mine(3, salt=1)], dist.group.WORLD)
    for i, out in enumerate(outs):
        equal(f.wait_tensor(out), torch.cat(w.all(i + 2, salt=i)))


@case(gloo=False)
def the_gradient_of_an_all_reduce_is_an_all_reduce(w):
    x = w.mine(4).requires_grad_()
    y = dnn.all_reduce(x * 1.0)
    (y * (w.rank + 1)).sum().backward()
    equal(x.grad, torch.full((4,), w.size * (w.size + 1) / 2))


@case(gloo=False)
def the_gradient_of_an_all_to_all_goes_back(w):
    x = w.mine(w.size, 3).requires_grad_()
    y = dnn.all_to_all_single(torch.empty(w.size, 3), x * 1.0)
    (y * (w.rank + 1)).sum().backward()
    expected = torch.arange(1.0, w.size + 1)[:, None].expand(w.size, 3)
    equal(x.grad, expected.contiguous())


@case()
def a_group_can_be_named_by_its_name(w):
    out = torch.ops._c10d_functional.all_reduce(w.mine(3), "sum", dist.group.WORLD.group_name)
    out = torch.ops._c10d_functional.wait_tensor(out)
    equal(out, fold(torch.add, w.all(3)))


@case(sizes=(2,), deadline=120)
def a_compiled_function_may_hold_a_collective(w):
    """The eager back end needs no compiler on the machine; what counts is that the call is traced."""

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(x):
        return f.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    equal(step(w.mine(6)), fold(torch.add, w.all(6)) * 2 + 1)
