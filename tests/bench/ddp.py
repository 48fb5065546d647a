"""One training step of a network of six layers of 1024: 25 MB of gradients to sum."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LAYERS, WIDTH, BATCH = 6, 1024, 16


def step_of(group: dist.ProcessGroup | None) -> Callable[[int], None]:
    """Forward, backward with the sum of gradients, and an SGD step; without a group, no communication."""
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers)
    if group is not None:
        model = DDP(model, process_group=group)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.001)
    x, y = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)

    def step(i: int) -> None:
        optimiser.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimiser.step()

    return step
