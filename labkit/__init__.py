"""A teaching lab for distributed deep learning: real MPI ranks behind every %%px cell."""

from labkit.errors import LabError
from labkit.lab import Lab, start

__version__ = "0.1.0"
__all__ = ["Lab", "LabError", "start"]
