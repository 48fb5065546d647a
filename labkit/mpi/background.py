"""Keep MPI moving while this rank computes.

MPI moves messages only inside its own calls. A receive that has ended here may still owe its sender an
answer; if this rank then computes for a minute the sender, in checked mode, waits a minute, and
looks as if it hung. So in checked mode a thread lends MPI a moment every few milliseconds.
"""

import atexit
import threading

from labkit.mpi.runtime import MPI
from labkit.mpi.waiting import waits

_PERIOD = 0.01  # seconds; a probe takes microseconds


def keep_moving():
    """Start the thread. It ends before MPI does."""
    ended = threading.Event()

    def run():
        while not ended.wait(_PERIOD):
            if not waits:  # a wait polls by itself
                MPI.COMM_SELF.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)

    thread = threading.Thread(target=run, name="labkit.mpi", daemon=True)
    thread.start()

    def end():
        ended.set()
        thread.join()

    atexit.register(end)
