"""DistributedDataParallel: the training of the split batch equals the training of the whole."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

from .models import batch, loss_of, network, same_parameters, serial
from .table import case
from .world import close, equal


def train(w, model, steps=3, lr=0.1):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        optimiser.zero_grad()
        loss_of(model, *batch(w, step, w.rank)).backward()
        optimiser.step()
    return model


@case()
def ddp_equals_serial_training(w):
    same_parameters(train(w, DDP(network(w))), serial(w, lr=0.1))


@case()
def small_buckets_make_many_reductions(w):
    same_parameters(train(w, DDP(network(w), bucket_cap_mb=0.0005)), serial(w, lr=0.1))


@case()
def gradients_may_be_views_of_buckets(w):
    same_parameters(train(w, DDP(network(w), gradient_as_bucket_view=True)), serial(w, lr=0.1))


@case()
def a_static_graph(w):
    same_parameters(train(w, DDP(network(w), static_graph=True)), serial(w, lr=0.1))


@case()
def the_start_is_that_of_rank_0(w):
    torch.manual_seed(w.rank)
    model = DDP(nn.Linear(3, 3))
    torch.manual_seed(0)
    same_parameters(model, nn.Linear(3, 3))


class Forked(nn.Module):
    """Uses one of two layers, another one on another rank."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, left):
        return self.left(x) if left else self.right(x)


@case()
def unused_parameters_are_reduced_as_zeros(w):
    torch.manual_seed(1)
    model = DDP(Forked(), find_unused_parameters=True)
    model(w.mine(5, 4), w.rank == 0).sum().backward()
    inputs = w.all(5, 4)
    close(model.module.left.weight.grad[0], inputs[0].sum(0) / w.size)
    close(model.module.right.weight.grad[0], sum(x.sum(0) for x in inputs[1:]) / w.size)


@case()
def gradients_accumulate_without_communication(w):
    model, reference = DDP(network(w)), network(w)
    with model.no_sync():
        loss_of(model, *batch(w, 0, w.rank)).backward()
    loss_of(model, *batch(w, 1, w.rank)).backward()
    for r in range(w.size):
        for step in (0, 1):
            (loss_of(reference, *batch(w, step, r)) / w.size).backward()
    for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
        close(found.grad, expected.grad)


@case()
def an_all_reduce_hook_changes_nothing(w):
    model = DDP(network(w))
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    same_parameters(train(w, model), serial(w, lr=0.1))


@case()
def a_compressing_hook_loses_only_precision(w):
    """Half precision only: torch refuses bfloat16 compression on a CPU before it reaches any backend."""
    model, reference = DDP(network(w)), serial(w, lr=0.1)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    for found, expected in zip(train(w, model).parameters(), reference.parameters(), strict=True):
        close(found.detach(), expected.detach(), rtol=0.05, atol=0.02)


@case()
def a_hook_of_ones_own(w):
    seen = []

    def double(state, bucket):
        seen.append(bucket.buffer().numel())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0] * 2)

    model = DDP(nn.Linear(4, 1, bias=False))
    model.register_comm_hook(None, double)
    model(w.mine(3, 4)).sum().backward()
    equal(model.module.weight.grad[0], 2 * sum(x.sum(0) for x in w.all(3, 4)))
    assert seen == [4]


@case()
def power_sgd(w):
    model = DDP(network(w))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(w, model, steps=5)
    first = next(model.parameters()).detach().clone()
    dist.broadcast(first, 0)
    equal(next(model.parameters()).detach(), first)


@case()
def buffers_follow_rank_0(w):
    model = DDP(nn.BatchNorm1d(3))
    model(w.mine(8, 3, salt=1))
    model(w.mine(8, 3, salt=2))
    after_first = 0.1 * w.data(0, 8, 3, salt=1).mean(0)
    close(model.module.running_mean, 0.9 * after_first + 0.1 * w.mine(8, 3, salt=2).mean(0))


@case()
def ranks_with_fewer_batches_join(w):
    model = DDP(nn.Linear(2, 1))
    with Join([model]):
        for _ in range(w.rank + 1):
            model(w.mine(3, 2)).sum().backward()
    dist.barrier()


@case()
def the_norm_of_the_gradient_is_the_same_everywhere(w):
    model = DDP(network(w))
    loss_of(model, *batch(w, 0, w.rank)).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    of_rank_0 = norm.clone()
    dist.broadcast(of_rank_0, 0)
    equal(norm, of_rank_0)
