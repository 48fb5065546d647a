"""A network that is cut by layers: one stage per rank, activations forward, gradients back. Lesson 15."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist


def layers_of(rank: int, layers: Sequence[torch.nn.Module], ranks: int) -> torch.nn.Sequential:
    """The stage of `rank`, of `ranks`: as many consecutive layers for each as can be, more for the last.

    Built in lesson 15.

    >>> [len(layers_of(rank, [torch.nn.Tanh()] * 5, 4)) for rank in range(4)]
    [1, 1, 1, 2]
    """
    first, last = (len(layers) * r // ranks for r in (rank, rank + 1))
    return torch.nn.Sequential(*layers[first:last])


def forward_through(stage: torch.nn.Module, x: torch.Tensor, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Receive the stage's input, compute its output, send that on; returns both.

    Ranks 0 to `ranks` - 1 call it. x is the batch on rank 0; elsewhere only its shape and dtype
    count, which are those of what arrives. Built in lesson 15.
    """
    rank = dist.get_rank()
    if rank > 0:
        x = torch.empty_like(x)
        dist.recv(x, rank - 1)
        x.requires_grad_()
    out = stage(x)
    if rank < ranks - 1:
        dist.send(out.detach(), rank + 1)
    return x, out


def backward_through(x: torch.Tensor, out: torch.Tensor, ranks: int) -> None:
    """Receive the gradient of the stage's output, go back, send that of its input on.

    x and out as `forward_through` returned them; on the last rank out is the loss. Leaves its gradient in
    each parameter of the stage. Built in lesson 15.
    """
    rank, grad = dist.get_rank(), None
    if rank < ranks - 1:
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
    out.backward(grad)
    if rank > 0:
        dist.send(x.grad, rank - 1)


def kept_for_backward(stage: torch.nn.Module, forward: Callable[[], Any]) -> tuple[Any, int]:
    """What forward() returns, and the bytes that autograd keeps of it until backward, parameters left out.

    A tensor that several operations keep counts once, a view with all of its memory. When it is let go does
    not count here; `Activations` tells the most that is kept at a time. Built in lesson 15.
    """
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = forward()
    for p in stage.parameters():
        kept.pop(p.untyped_storage().data_ptr(), None)
    return result, sum(kept.values())
