"""Keep MPI moving while this rank computes.

MPI moves messages only inside its own calls. A receive that has ended here may still owe its sender an
answer; if this rank then computes for a minute the sender, in checked mode, waits a minute, and
looks as if it hung. So in checked mode a thread lends MPI a moment every few milliseconds.
"""

import atexit
import threading

from labkit.mpi.runtime import MPI
from labkit.mpi.waiting import waits

_PERIOD = 0.01  # seconds
_PROBES = 50  # each moves one message on, and takes a microsecond


def keep_moving(comm):
    """Start the thread, which probes `comm`: not COMM_SELF, where MPICH moves nothing. It ends before MPI."""
    ended = threading.Event()

    def run():
        while not ended.wait(_PERIOD):
            for _ in range(_PROBES):
                if waits:  # a wait polls by itself
                    break
                comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)

    thread = threading.Thread(target=run, name="labkit.mpi", daemon=True)
    thread.start()

    def end():
        ended.set()
        thread.join()

    atexit.register(end)
