"""How torch learns of this backend, as "mpi" and as "mpi4py", and makes its groups.

Imports neither MPI nor the groups before the first is asked for.

A stock wheel knows the name "mpi" and has nothing behind it. For a default group of that name torch passes
placeholders where size, rank and store belong, so the helper that makes groups is wrapped to hand them over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist

from labkit import LabError
from labkit.mpi import torch_internals
from labkit.mpi.call import Call

# Calls of new_group since somebody asked, on members and on the others.
_made: deque[Call] = deque(maxlen=1000)
# What torch's helper was asked for, while it makes a group of ours.
_asked: list[tuple[str, timedelta | None, dist.Store]] = []


class ProcessGroupMPI:
    """What PyTorch 2.13 calls for backend "mpi"."""

    @staticmethod
    def create(ranks: Sequence[int]) -> dist.ProcessGroup:
        return create_group(list(ranks), *_asked[-1])


def _create(options: Any, _: object) -> dist.ProcessGroup:
    return create_group(
        list(options.global_ranks_in_group), options.group_id, options.timeout, options.store,
        expected=(options.group_rank, options.group_size),
    )  # fmt: skip


def register() -> None:
    """Make "mpi" and "mpi4py" known to torch.distributed. A torch built with MPI keeps its own.

    LabError if this PyTorch lacks what labkit leans on.
    """
    torch_internals.require()
    if not torch_internals.is_registered("mpi4py"):
        dist.Backend.register_backend("mpi4py", _create, extended_api=True, devices=["cpu"])
    if not dist.is_mpi_available():
        torch_internals.offer_mpi(_create, ProcessGroupMPI)
        torch_internals.wrap_helper(_with_store)


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
            size, rank, store = default_world()
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


def default_world() -> tuple[int, int, dist.Store]:
    """Size, rank and store for the default group about to be made: a namespace in the World's store."""
    from labkit.mpi.world import world

    here = world()
    return here.size, here.rank, dist.PrefixStore(f"mpi/{here.generation}", here.store)


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
