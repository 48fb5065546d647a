"""torch's entry point for backends: called at the end of every `import torch`.

An exception here would break every `import torch` of the environment and time spent here is paid
by all of them. So it does nothing unless this process was started by an MPI launcher or labkit
asks for it (LABKIT_MPI=1), it imports nothing but what torch has just imported, and it lets no
exception out. LABKIT_MPI=0 turns it off.
"""

import os

# Set for each rank by Hydra (MPICH, Intel MPI), Open MPI, and srun --mpi=pmi2 or pmix.
LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def under_launcher() -> bool:
    """Whether this process is a rank of an MPI job, as far as its environment tells."""
    return any(name in os.environ for name in LAUNCHERS)


def load() -> None:
    """The entry point."""
    try:
        if under_launcher() if os.environ.get("LABKIT_MPI") is None else os.environ["LABKIT_MPI"] != "0":
            from labkit.mpi.registration import register

            register()
    except Exception as error:  # noqa: BLE001 - nothing may escape; torch must stay importable
        if os.environ.get("LABKIT_MPI"):
            import warnings

            warnings.warn(f"labkit: backend mpi is not available: {error!r}", stacklevel=2)
