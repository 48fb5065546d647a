"""mpi4py's communicators in a lab's ranks: the names in its module, bound to watched ones."""

from __future__ import annotations

from collections.abc import Callable

from labkit.mpi.watched import world
from labkit.mpi.watched.communicators import Comm
from labkit.mpi.watched.matched import Message
from labkit.mpi.watched.requests import Prequest, Request
from labkit.mpi.watched.world import Watched
from labkit.mpi.wire.runtime import MPI


def install(checked: bool, before_abort: Callable[[int, int], None]) -> None:
    """Watch what `from mpi4py import MPI` gives from now on. Collective over all ranks.

    `before_abort` hears of a rank that ends all: which, and its code.
    """
    world.here = here = Watched(checked, before_abort)
    vars(MPI).update(
        COMM_WORLD=Comm(MPI.COMM_WORLD).adopt(here, "COMM_WORLD"),
        COMM_SELF=Comm(MPI.COMM_SELF).adopt(here, f"COMM_SELF of rank {here.rank}"),
        Request=Request,
        Prequest=Prequest,
        Message=Message,
    )
