"""torch, imported when something of it is asked for: to ask for a number must not take a second."""

from importlib import import_module
from typing import Any


class _Later:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


torch: Any = _Later("torch")
dist: Any = _Later("torch.distributed")
