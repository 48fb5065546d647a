"""All ranks of a communicator meet: they tell each other something, or copy the communicator.

A meeting is a generator: it yields each request that it waits for, so that who drives it (`finished`, or
`labkit.mpi.repair.recovery`) decides for how long, and can go on with it later where it was.
"""

import os
import pickle
import time
from array import array
from collections.abc import Generator
from itertools import accumulate
from typing import TypeAlias, TypeVar

from labkit.mpi.errors import DeadlineError
from labkit.mpi.wire.parts import Request
from labkit.mpi.wire.runtime import MPI

Shared = TypeVar("Shared")
Meeting: TypeAlias = Generator[Request, None, Shared]

_LONGEST = 30.0  # seconds: what a machine may take that does other work too


def share(comm: MPI.Intracomm, thing: Shared) -> Meeting[list[Shared]]:
    """[thing of rank 0, thing of rank 1, ...]. All ranks must be here."""
    data = pickle.dumps(thing)
    sizes = array("q", [0] * comm.size)
    yield comm.Iallgather([array("q", [len(data)]), MPI.INT64_T], [sizes, MPI.INT64_T])
    everything = bytearray(sum(sizes))
    yield comm.Iallgatherv([data, MPI.BYTE], [everything, (list(sizes), None), MPI.BYTE])
    ends = list(accumulate(sizes))
    return [pickle.loads(everything[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def duplicate(comm: MPI.Intracomm) -> Meeting[MPI.Intracomm]:
    """comm.Dup(), where all ranks are here; MPI's own spins, 10 ms a call with more ranks than cores."""
    copy, request = comm.Idup()
    yield request
    return copy


def finished(meeting: Meeting[Shared]) -> Shared:
    """What a meeting brings, of ranks that are on their way here; DeadlineError where one was interrupted."""
    deadline = time.monotonic() + _LONGEST
    while True:
        try:
            request = next(meeting)
        except StopIteration as end:
            return end.value
        while not request.Test():
            if time.monotonic() > deadline:
                raise DeadlineError(
                    "a new group",
                    f"a rank that had come did not go on within {_LONGEST:g} s",
                    "labkit.mpi.recover() on every rank, or restart the ranks",
                )
            os.sched_yield()
