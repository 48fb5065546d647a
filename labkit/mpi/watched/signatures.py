"""mpi4py's collectives as tables: their parameters, and what of them all ranks must have alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.mpi.watched import contents
from labkit.mpi.watched.contents import Content
from labkit.mpi.wire.runtime import MPI

if TYPE_CHECKING:
    from labkit.mpi.watched.communicators import Comm


@dataclass(frozen=True)
class Buffers:
    """A collective of buffers: its parameters with their defaults, and what of them must be alike."""

    parameters: dict[str, Any]
    content: Callable[[Comm, dict[str, Any]], Content] = lambda comm, given: None


def _same(comm: Comm, given: dict[str, Any]) -> Content:
    """The numbers that each rank gives."""
    buffer = given["sendbuf"]
    return contents.content(given["recvbuf"] if buffer is MPI.IN_PLACE else buffer)


def _bcast(comm: Comm, given: dict[str, Any]) -> Content:
    return contents.content(given["buf"])


def _gather(comm: Comm, given: dict[str, Any]) -> Content:
    if comm.me == given["root"]:
        return contents.content(given["recvbuf"], comm.members)
    return contents.content(given["sendbuf"])


def _scatter(comm: Comm, given: dict[str, Any]) -> Content:
    if comm.me == given["root"]:
        return contents.content(given["sendbuf"], comm.members)
    return contents.content(given["recvbuf"])


def _allgather(comm: Comm, given: dict[str, Any]) -> Content:
    if given["sendbuf"] is MPI.IN_PLACE:
        return contents.content(given["recvbuf"], comm.members)
    return contents.content(given["sendbuf"])


def _alltoall(comm: Comm, given: dict[str, Any]) -> Content:
    buffer = given["recvbuf"] if given["sendbuf"] is MPI.IN_PLACE else given["sendbuf"]
    return contents.content(buffer, comm.members)


REQUIRED = object()
_BOTH = {"sendbuf": REQUIRED, "recvbuf": REQUIRED}
_OP, _ROOT = {"op": MPI.SUM}, {"root": 0}
BUFFERS = {
    "Barrier": Buffers({}),
    "Bcast": Buffers({"buf": REQUIRED, **_ROOT}, _bcast),
    "Gather": Buffers({**_BOTH, **_ROOT}, _gather),
    "Gatherv": Buffers({**_BOTH, **_ROOT}),
    "Scatter": Buffers({**_BOTH, **_ROOT}, _scatter),
    "Scatterv": Buffers({**_BOTH, **_ROOT}),
    "Allgather": Buffers(_BOTH, _allgather),
    "Allgatherv": Buffers(_BOTH),
    "Alltoall": Buffers(_BOTH, _alltoall),
    "Alltoallv": Buffers(_BOTH),
    "Alltoallw": Buffers(_BOTH),
    "Reduce": Buffers({**_BOTH, **_OP, **_ROOT}, _same),
    "Allreduce": Buffers({**_BOTH, **_OP}, _same),
    "Scan": Buffers({**_BOTH, **_OP}, _same),
    "Exscan": Buffers({**_BOTH, **_OP}, _same),
    "Reduce_scatter": Buffers({**_BOTH, "recvcounts": None, **_OP}),
    "Reduce_scatter_block": Buffers({**_BOTH, **_OP}),
}
"""Those of buffers, by mpi4py's name."""

_OBJECT = {"sendobj": REQUIRED}
PICKLED: dict[str, dict[str, Any]] = {
    "bcast": {"obj": REQUIRED, **_ROOT},
    "gather": {**_OBJECT, **_ROOT},
    "scatter": {**_OBJECT, **_ROOT},
    "allgather": _OBJECT,
    "alltoall": _OBJECT,
    "reduce": {**_OBJECT, **_OP, **_ROOT},
    "allreduce": {**_OBJECT, **_OP},
    "scan": {**_OBJECT, **_OP},
    "exscan": {**_OBJECT, **_OP},
}
"""Those of pickled objects."""
