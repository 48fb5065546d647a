"""The small network that the parallel cases train, and the serial training that each must equal."""

import torch
from torch import nn

from .world import World


def network(w: World) -> nn.Sequential:
    """The same start on every rank."""
    torch.manual_seed(w.seed % 2**31)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).double()


def batch(w: World, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = w.data(rank, 6, 8, dtype=torch.float64, salt=("x", step))
    y = w.data(rank, 6, 4, dtype=torch.float64, salt=("y", step))
    return x, y


def whole_batch(w: World, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Every rank's batch, one after the other."""
    parts = [batch(w, step, r) for r in range(w.size)]
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(x), y)


def serial(w: World, steps: int = 3, make=torch.optim.SGD, **options) -> nn.Sequential:
    """Train alone on the whole batch: what every kind of parallel training must reach."""
    model = network(w)
    optimiser = make(model.parameters(), **options)
    for step in range(steps):
        optimiser.zero_grad()
        loss_of(model, *whole_batch(w, step)).backward()
        optimiser.step()
    return model


def same_parameters(model: nn.Module, reference: nn.Module) -> None:
    for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(found.detach(), expected.detach(), rtol=1e-9, atol=1e-10)
