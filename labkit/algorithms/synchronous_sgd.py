"""Synchronous SGD: replicas that start equal and stay equal. Built in lesson 04."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector


def sync_initial_weights(model: torch.nn.Module) -> None:
    """Give every replica the weights and buffers of rank 0, in place.

    A collective: every rank calls it with a model of the same architecture. Built in lesson 04.
    """
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)


def sync_gradients(model: torch.nn.Module) -> None:
    """Replace every parameter's gradient by its mean over all ranks, in place.

    A collective: every rank calls it after `backward()`, with a gradient on each parameter. The
    mean is unweighted, so mini-batches must be of one size. Built in lesson 04.
    """
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def train_epoch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
    batch_size: int,
    epoch: int,
    sync: Callable[[torch.nn.Module], object] = sync_gradients,
) -> list[float]:
    """Train on one pass over this rank's part; returns the loss of each step, a list of floats.

    x is [N_r, ...], y has N_r labels, and N_r must be the same on all ranks: a rank with fewer
    steps would leave the others waiting. The order is the same permutation on every rank, drawn
    from the epoch's number. `sync` is called between backward and step. Built in lesson 04.
    """
    losses = []
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(batch_size):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        sync(model)
        optimizer.step()
        losses.append(loss.item())
    return losses


def in_step(model: torch.nn.Module) -> bool:
    """Whether this replica equals rank 0's bit for bit.

    A collective: every rank calls it; True or False on each. Built in lesson 04.
    """
    mine = parameters_to_vector(model.parameters()).detach()
    first = mine.clone()
    dist.broadcast(first, src=0)
    return torch.equal(mine.view(torch.uint8), first.view(torch.uint8))
