"""How far each rank's clock is from rank 0's, measured by messages to and fro."""

from array import array
from collections.abc import Sequence

from labkit import LabError
from labkit.mpi.call import Call
from labkit.mpi.record import record
from labkit.mpi.wire.runtime import MPI, WORLD
from labkit.mpi.wire.waiting import wait_until
from labkit.trace.merge import offset
from labkit.trace.records import Offset

ROUNDS = 50  # the quickest of them counts
DEADLINE = 10.0  # seconds for each message; the ranks are idle

_given_up: list[MPI.Request] = []
"""Requests that did not end in time. They are kept, since MPI may still write where they point."""


def measure() -> Offset:
    """This rank's offset from rank 0's clock. Collective over all ranks. LabError if one does not come."""
    # One of its own, each time: what a rank that came too late finds under way is not in that of the others.
    comm, request = WORLD.Idup()
    _complete(request)
    found = _measured(comm)
    comm.Free()
    return found


def _measured(comm: MPI.Intracomm) -> Offset:
    if comm.rank == 0:
        for rank in range(1, comm.size):
            trips = [_ping(comm, rank) for _ in range(ROUNDS)]
            _send(comm, min(trips, key=lambda trip: trip[2] - trip[0]), rank)
        return Offset(record.clock(), 0, 0)
    for _ in range(ROUNDS):
        _receive(comm, 1, 0)
        _send(comm, [record.clock()], 0)
    return offset(*_receive(comm, 3, 0))


def _ping(comm: MPI.Comm, rank: int) -> tuple[int, int, int]:
    ping = record.clock()
    _send(comm, [0], rank)
    (pong,) = _receive(comm, 1, rank)
    return ping, pong, record.clock()


def _send(comm: MPI.Comm, numbers: Sequence[int], rank: int) -> None:
    _complete(comm.Isend([array("q", numbers), MPI.INT64_T], rank))


def _receive(comm: MPI.Comm, count: int, rank: int) -> array:
    numbers = array("q", [0] * count)
    _complete(comm.Irecv([numbers, MPI.INT64_T], rank))
    return numbers


def _complete(request: MPI.Request) -> None:
    if not wait_until(request.Test, DEADLINE, Call("compare clocks", "", range(WORLD.size))):
        _given_up.append(request)
        raise LabError(
            "clocks of all ranks compared, for a trace",
            f"some rank did not answer within {DEADLINE:g} s",
            "lab.restart(), then run the cell again",
        )
