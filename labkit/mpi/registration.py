"""How torch learns of this backend, as "mpi" and as "mpi4py", and makes its groups.

Imports neither MPI nor the groups before the first is asked for.

A stock wheel knows the name "mpi" and has no class behind it, so the class is put there. Its
branch for "mpi" also passes a placeholder where a store belongs, and drops the timeout; the helper that
makes groups is wrapped to hand over both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from labkit import LabError
from labkit.mpi.call import Call

# Calls of new_group since somebody asked, on members and on the others.
_made: deque[Call] = deque(maxlen=1000)
# What torch's helper was asked for, while it makes a group of ours.
_asked: list[tuple[str, timedelta | None, dist.Store]] = []


class ProcessGroupMPI:
    """What torch calls for backend "mpi"."""

    @staticmethod
    def create(ranks: Sequence[int]) -> dist.ProcessGroup:
        return create_group(list(ranks), *_asked[-1])


def _create_mpi4py(options: Any, _: object) -> dist.ProcessGroup:
    return create_group(
        list(options.global_ranks_in_group), options.group_id, options.timeout, options.store,
        expected=(options.group_rank, options.group_size),
    )  # fmt: skip


def register() -> None:
    """Make "mpi" and "mpi4py" known to torch.distributed. A torch built with MPI keeps its own."""
    if "MPI4PY" not in dist.Backend._plugins:
        dist.Backend.register_backend("mpi4py", _create_mpi4py, extended_api=True, devices=["cpu"])
    if not c10d._MPI_AVAILABLE:
        c10d._MPI_AVAILABLE = True
        c10d.ProcessGroupMPI = dist.ProcessGroupMPI = ProcessGroupMPI
        c10d._new_process_group_helper = _with_store(c10d._new_process_group_helper)
        c10d.monitored_barrier = dist.monitored_barrier = _for_mpi_too(c10d.monitored_barrier)


def _with_store(helper: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(helper)
    def new_process_group_helper(
        size: int,
        rank: int,
        ranks: Sequence[int],
        backend: str,
        store: dist.Store,
        name: str,
        *args: Any,
        timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> Any:
        if backend == dist.Backend.MPI and not ranks:
            store = default_store()
        _asked.append((name, timeout, store))
        if ranks:
            _made.append(Call("new_group", name, tuple(ranks)))
            _made[-1].locate()
        try:
            return helper(size, rank, ranks, backend, store, name, *args, timeout=timeout, **kwargs)
        finally:
            _asked.pop()

    return new_process_group_helper


def made() -> list[Call]:
    """The calls of new_group on this rank since the last question."""
    told = list(_made)
    _made.clear()
    return told


def _for_mpi_too(monitored_barrier: Callable[..., None]) -> Callable[..., None]:
    """torch lets only a group named "gloo" through, whatever the group can do."""

    @wraps(monitored_barrier)
    def monitored(
        group: Any = c10d.GroupMember.WORLD, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        asked = c10d._get_default_group() if group is None else group
        if hasattr(asked, "monitored_barrier") and not c10d._rank_not_in_group(group):
            return asked.monitored_barrier(timeout, wait_all_ranks)
        return monitored_barrier(group, timeout, wait_all_ranks)

    return monitored


def default_store() -> dist.Store:
    """A store for the default group about to be made: a namespace of its own in the World's store."""
    from labkit.mpi.world import world

    here = world()
    return dist.PrefixStore(f"mpi/{here.generation}", here.store)


def create_group(
    ranks: list[int],
    name: str,
    timeout: timedelta,
    store: dist.Store,
    expected: tuple[int, int] | None = None,
) -> dist.ProcessGroup:
    """A group over `ranks`, world ranks; an empty list is the default group. Collective over them.

    LabError where torch's rank or world size, `expected`, is not MPI's.
    """
    from labkit.mpi.process_group import MPIProcessGroup
    from labkit.mpi.world import world

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
