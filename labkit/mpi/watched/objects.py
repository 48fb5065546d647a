"""Collectives of pickled objects, as plans: each yields the requests that it waits for, one after another.

Before those it yields None, when all is prepared that can fail: it goes on when its turn has come.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from functools import reduce as fold
from itertools import accumulate
from typing import Any, TypeAlias

from labkit.mpi.wire.runtime import MPI

Plan: TypeAlias = Generator[MPI.Request | None, None, Any]
Operator: TypeAlias = Callable[[Any, Any], Any]

_P = MPI.Intracomm
_DUMPS, _LOADS = MPI.pickle.dumps, MPI.pickle.loads


def bcast(comm: MPI.Intracomm, obj: Any, root: int) -> Plan:
    size = array("q", [0])
    data: Any = b""
    if comm.rank == root:
        data = _DUMPS(obj)
        size[0] = len(data)
    yield None
    yield _P.Ibcast(comm, [size, MPI.INT64_T], root)
    if comm.rank != root:
        data = bytearray(size[0])
    yield _P.Ibcast(comm, [data, MPI.BYTE], root)
    return _LOADS(data)


def gather(comm: MPI.Intracomm, obj: Any, root: int) -> Plan:
    data = _DUMPS(obj)
    yield None
    here = comm.rank == root
    sizes = array("q", [0] * comm.size) if here else None
    into: Any = [sizes, MPI.INT64_T] if here else None
    yield _P.Igather(comm, [array("q", [len(data)]), MPI.INT64_T], into, root)
    everything = bytearray(sum(sizes)) if here else None
    into = [everything, (list(sizes), None), MPI.BYTE] if here else None
    yield _P.Igatherv(comm, [data, MPI.BYTE], into, root)
    return _parts(everything, sizes) if here else None


def scatter(comm: MPI.Intracomm, objs: Sequence[Any] | None, root: int) -> Plan:
    here = comm.rank == root
    parts = _each(objs, comm.size) if here else []
    sizes = array("q", map(len, parts))
    mine = array("q", [0])
    yield None
    yield _P.Iscatter(comm, [sizes, MPI.INT64_T] if here else None, [mine, MPI.INT64_T], root)
    data = bytearray(mine[0])
    given = [b"".join(parts), (list(sizes), None), MPI.BYTE] if here else None
    yield _P.Iscatterv(comm, given, [data, MPI.BYTE], root)
    return _LOADS(data)


def allgather(comm: MPI.Intracomm, obj: Any) -> Plan:
    data, sizes = _DUMPS(obj), array("q", [0] * comm.size)
    yield None
    yield _P.Iallgather(comm, [array("q", [len(data)]), MPI.INT64_T], [sizes, MPI.INT64_T])
    everything = bytearray(sum(sizes))
    yield _P.Iallgatherv(comm, [data, MPI.BYTE], [everything, (list(sizes), None), MPI.BYTE])
    return _parts(everything, sizes)


def alltoall(comm: MPI.Intracomm, objs: Sequence[Any]) -> Plan:
    parts = _each(objs, comm.size)
    give, take = array("q", map(len, parts)), array("q", [0] * comm.size)
    yield None
    yield _P.Ialltoall(comm, [give, MPI.INT64_T], [take, MPI.INT64_T])
    everything = bytearray(sum(take))
    yield _P.Ialltoallv(
        comm,
        [b"".join(parts), (list(give), None), MPI.BYTE],
        [everything, (list(take), None), MPI.BYTE],
    )
    return _parts(everything, take)


def allreduce(comm: MPI.Intracomm, obj: Any, op: Operator) -> Plan:
    return fold(op, (yield from allgather(comm, obj)))


def reduce(comm: MPI.Intracomm, obj: Any, op: Operator, root: int) -> Plan:
    everything = yield from gather(comm, obj, root)
    return fold(op, everything) if comm.rank == root else None


def scan(comm: MPI.Intracomm, obj: Any, op: Operator) -> Plan:
    return fold(op, (yield from allgather(comm, obj))[: comm.rank + 1])


def exscan(comm: MPI.Intracomm, obj: Any, op: Operator) -> Plan:
    before = (yield from allgather(comm, obj))[: comm.rank]
    return fold(op, before) if before else None


def _each(objs: Sequence[Any] | None, size: int) -> list[bytes]:
    if objs is None:
        objs = [None] * size
    objs = list(objs)
    if len(objs) != size:
        raise ValueError(f"expecting {size} items, got {len(objs)}")
    return [_DUMPS(obj) for obj in objs]


def _parts(everything: Any, sizes: Sequence[int]) -> list[Any]:
    ends = accumulate(sizes)
    return [_LOADS(everything[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
