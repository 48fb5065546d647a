"""mpi4py.MPI, started here: importing it calls MPI_Init_thread, and exit calls MPI_Finalize."""

import os
import sys

from labkit import LabError

# Whoever started MPI decides how the ranks end; see World.
STARTED_HERE = "mpi4py.MPI" not in sys.modules

_mask = os.umask(0o077)  # MPIs make shared memory that their user's group could write to
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise LabError(
        "a process group on MPI", f"{type(error).__name__}: {error}", "pip install mpi4py mpich"
    ) from error
finally:
    os.umask(_mask)

WORLD = MPI.COMM_WORLD
"""MPI's own, where a lab's cells find another under that name (`labkit.mpi.watched`)."""

__all__ = ["MPI", "STARTED_HERE", "WORLD"]
