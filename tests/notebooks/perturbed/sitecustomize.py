"""On PYTHONPATH, every initial weight of every process is 1 + 1e-6 times as large.

That is ten times the rounding of a float32, and more than two processors differ by: an output that changes
was stored with digits that another processor need not give.
"""

import importlib.abc
import importlib.util
import sys
from functools import wraps

BY = 1 + 1e-6
INITIAL = ("uniform_", "normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_")


def perturbed(init):
    @wraps(init)
    def scaled(tensor, *args, **kwargs):
        import torch

        with torch.no_grad():
            return init(tensor, *args, **kwargs).mul_(BY)

    return scaled


class AfterTorchInit(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads torch.nn.init as usual, then wraps what draws initial weights."""

    def find_spec(self, name, path, target=None):
        if name != "torch.nn.init":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        for name in INITIAL:
            setattr(module, name, perturbed(getattr(module, name)))


sys.meta_path.insert(0, AfterTorchInit())
