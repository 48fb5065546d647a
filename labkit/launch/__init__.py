"""Where ranks run, and with which MPI: all that is known before a process is started."""

from labkit.launch.mpi import MPI, find_mpi, recognise
from labkit.launch.plan import BACKENDS, DEFAULT_RANKS, DEVICES, LAUNCHERS, MAX_RANKS, Plan, plan, resized

__all__ = [
    "BACKENDS",
    "DEFAULT_RANKS",
    "DEVICES",
    "LAUNCHERS",
    "MAX_RANKS",
    "MPI",
    "Plan",
    "find_mpi",
    "plan",
    "recognise",
    "resized",
]
