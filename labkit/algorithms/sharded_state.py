"""Weights, gradients and optimiser state of which each rank keeps a part: ZeRO's three stages. Lesson 18.

A rank's part of a matrix is as many of its rows as any other rank has: rows must be divisible by the ranks.
`master` is that part in the optimiser's precision, `whole` the matrix in which the network computes.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
arXiv 1910.02054, section 5.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


def sharded_step(whole: torch.Tensor, master: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Stage 1: every rank has all of `whole` and its gradient, and updates its part of it only.

    whole is [n, ...], master [n / world_size, ...]; both are changed. A collective. Built in lesson 18.
    """
    mine = torch.empty_like(whole.grad[: len(master)])
    dist.reduce_scatter_single(mine, whole.grad)
    master.grad = mine.to(master.dtype) / dist.get_world_size()
    optimizer.step()
    dist.all_gather_single(whole.data, master.detach().to(whole.dtype))


def sharded_backward(loss: torch.Tensor, wholes: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Stage 2: this rank's parts of the mean gradients of `wholes`; each whole one is freed at once.

    `loss.backward()` is called here. A collective. Built in lesson 18.
    """
    parts = {}

    def share(whole: torch.Tensor) -> None:
        mine = torch.empty_like(whole.grad[: len(whole) // dist.get_world_size()])
        dist.reduce_scatter_single(mine, whole.grad)
        parts[whole] = mine / dist.get_world_size()
        whole.grad = None

    hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
    loss.backward()
    for hook in hooks:
        hook.remove()
    return [parts[whole] for whole in wholes]


def gathered(part: torch.Tensor) -> torch.Tensor:
    """The whole of a tensor of which each rank has some rows. A collective. Built in lesson 18."""
    whole = part.new_empty(len(part) * dist.get_world_size(), *part.shape[1:])
    dist.all_gather_single(whole, part.detach())
    return whole


class Sharded(torch.autograd.Function):
    """Stage 3: `Sharded.apply(x, part)` is x @ whole.T, where `whole` is there only while it is needed.

    It is gathered forward, and once more backward; the gradient of `part` is the mean over all ranks. Every
    rank has its own x. A collective. Built in lesson 18.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, part)
        return x @ gathered(part).T

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, part = ctx.saved_tensors
        of_x = grad @ gathered(part)
        mine = torch.empty_like(part)
        dist.reduce_scatter_single(mine, grad.T @ x)
        return of_x, mine / dist.get_world_size()
