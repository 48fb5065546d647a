"""A teaching lab for distributed deep learning on real MPI ranks; README.md beside this file is its map.

>>> lab = labkit.start(4)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.exercises import ask, check, hint, predict, progress, show, solution
    from labkit.lab.lab import Lab
    from labkit.lab.session import start
    from labkit.simulate.planner import plan
    from labkit.trace import Trace

__version__ = "0.1.0"
__all__ = ["Lab", "LabError", "Trace", "ask", "check", "hint", "plan", "predict", "progress", "show"]
__all__ += ["solution", "start"]
_HOME = {"Lab": "labkit.lab.lab", "Trace": "labkit.trace", "start": "labkit.lab.session"}
_HOME |= dict.fromkeys("ask check hint predict progress show solution".split(), "labkit.exercises")
_HOME |= {"plan": "labkit.simulate.planner"}


class LabError(Exception):
    """Something a user can mend: says what was asked, what was found, and the fix.

    >>> raise LabError("4 ranks", "no mpiexec in this environment", "pip install 'labkit[mpich]'")
    Traceback (most recent call last):
        ...
    labkit.LabError: asked: 4 ranks
    found: no mpiexec in this environment
    fix:   pip install 'labkit[mpich]'
    """

    def __init__(self, asked: str, found: str, fix: str):
        super().__init__(f"asked: {asked}\nfound: {found}\nfix:   {fix}")
        self.asked, self.found, self.fix = asked, found, fix

    def __reduce__(self) -> tuple[type["LabError"], tuple[str, str, str]]:
        return LabError, (self.asked, self.found, self.fix)

    def _render_traceback_(self) -> list[str]:
        """What IPython prints: the three lines, without labkit's own frames."""
        return [f"\x1b[31mLabError\x1b[0m\n{self}"]


def __getattr__(name: str) -> Any:
    """Import on first use: torch loads labkit.mpi in every rank of every script, which needs no more."""
    if name not in _HOME:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if "IPython" in sys.modules:  # there %%px says what to run, until `start` has been called
    import_module("labkit.lab.stub").offer()
