"""All ranks of a communicator meet: they tell each other something, or copy the communicator."""

import os
import pickle
import time
from array import array
from itertools import accumulate
from typing import TypeVar

from labkit.mpi.errors import DeadlineError
from labkit.mpi.wire.runtime import MPI

Shared = TypeVar("Shared")

_LONGEST = 30.0  # seconds: what a machine may take that does other work too


def share(comm: MPI.Intracomm, thing: Shared) -> list[Shared]:
    """[thing of rank 0, thing of rank 1, ...]. All ranks must be here."""
    data = pickle.dumps(thing)
    sizes = array("q", [0] * comm.size)
    polled(comm.Iallgather([array("q", [len(data)]), MPI.INT64_T], [sizes, MPI.INT64_T]))
    everything = bytearray(sum(sizes))
    polled(comm.Iallgatherv([data, MPI.BYTE], [everything, (list(sizes), None), MPI.BYTE]))
    ends = list(accumulate(sizes))
    return [pickle.loads(everything[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def duplicate(comm: MPI.Intracomm) -> MPI.Intracomm:
    """comm.Dup(), where all ranks are here; MPI's own spins, 10 ms a call with more ranks than cores."""
    copy, request = comm.Idup()
    polled(request)
    return copy


def polled(request: MPI.Request) -> None:
    """Wait for ranks that are on their way here; DeadlineError where one was interrupted on it."""
    deadline = time.monotonic() + _LONGEST
    while not request.Test():
        if time.monotonic() > deadline:
            found = f"a rank that had come did not go on within {_LONGEST:g} s"
            raise DeadlineError(
                "labkit.mpi.recover()", found, "call it again on every rank, or restart the ranks"
            )
        os.sched_yield()
