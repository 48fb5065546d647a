"""From torch's request to a group."""

import torch.distributed as dist

from labkit.errors import LabError
from labkit.mpi.verbs import MPIProcessGroup
from labkit.mpi.world import world


def default_store():
    """A store for the default group about to be made: a namespace of its own in the World's store."""
    here = world()
    return dist.PrefixStore(f"mpi/{here.generation}", here.store)


def create_group(ranks, name, timeout, store, expected=None):
    """A group over `ranks`, world ranks; an empty list is the default group. Collective over them.

    LabError where torch's rank or world size, `expected`, is not MPI's.
    """
    here = world()
    if not ranks:
        if expected is not None and expected != (here.rank, here.size):
            raise LabError(
                "rank {} of {}".format(*expected),
                f"MPI says rank {here.rank} of {here.size}",
                "leave rank and world_size out, or take them from MPI",
            )
        ranks = list(range(here.size))
        here.generation += 1
    key = f"{here.generation}/{name}"
    seconds = timeout.total_seconds()
    comms = here.communicators(ranks, key, seconds)
    return MPIProcessGroup(here, key, ranks, comms, name, seconds, store)
