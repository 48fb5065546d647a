"""torch, imported when something of it is asked for: to ask for a number must not take a second."""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
else:
    torch = _Later("torch")
    dist = _Later("torch.distributed")

__all__ = ["dist", "torch"]
