"""A teaching lab for distributed deep learning: real MPI ranks behind every %%px cell.

>>> import labkit
>>> lab = labkit.start(4)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.errors import LabError
    from labkit.exercises import ask, check, hint, predict, progress, solution
    from labkit.lab import Lab
    from labkit.notebook import start
    from labkit.trace import Trace

__version__ = "0.1.0"
__all__ = [
    "Lab", "LabError", "Trace", "ask", "check", "hint", "predict", "progress", "solution", "start",
]  # fmt: skip

_HOME = {
    "Lab": "labkit.lab",
    "LabError": "labkit.errors",
    "Trace": "labkit.trace",
    "start": "labkit.notebook",
}
_HOME |= dict.fromkeys(("ask", "check", "hint", "predict", "progress", "solution"), "labkit.exercises")


def __getattr__(name: str):
    """Import on first use: torch loads labkit.mpi in every rank of every script, which needs no more."""
    if name not in _HOME:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
