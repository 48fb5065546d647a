"""One rank's gradient, and the mean over all ranks. Built in lesson 03."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def gradient(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Gradient of the mean cross-entropy of a classifier, all parameters in one vector [P].

    x is [N, ...], y holds N class numbers. Every parameter must take part in the loss. Built in
    lesson 03.
    """
    model.zero_grad()
    cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over norm of what was expected: a number without unit.

    Two tensors of one shape. Built in lesson 03.

    >>> round(distance(torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0])), 3)
    0.2
    """
    return ((found - expected).norm() / expected.norm()).item()


def mean_over_ranks(
    gradient: torch.Tensor, samples: int, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Mean of the ranks' vectors [P], weighted by how many samples each one stands for.

    A collective: every rank of the group calls it with a vector of the same shape. samples > 0 on
    at least one rank. Returns a new vector, the same on every rank. Built in lesson 03.
    """
    total = gradient.new_tensor(float(samples))
    dist.all_reduce(total, group=group)
    mean = gradient * (samples / total.item())
    dist.all_reduce(mean, group=group)
    return mean
