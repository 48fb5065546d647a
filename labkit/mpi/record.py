"""What this process records of its communication while a trace is on. Off, it costs a test of None.

A record is made where an operation is entered and completed where it ends, so what never ends is there
too. Names are looked up when the recording is over (`labkit.recording`).
"""

import threading
import time
from contextlib import contextmanager

OVERLAP = 200_000
"""Nanoseconds between posting an operation and waiting for it from which on the rank did other work."""

records: list | None = None
"""One Record for each operation, in the order in which they were entered; None while no trace is on."""

clock = time.perf_counter_ns
"""Nanoseconds; the same clock in all processes of one machine. Replaceable: tests set it wrong."""


def _cpu_clock():
    """A clock of the main thread's processor time, readable from any thread where the system allows."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time_ns
    main, read = time.pthread_getcpuclockid(threading.main_thread().ident), time.clock_gettime_ns
    return lambda: read(main)


cpu = _cpu_clock()


class Record:
    """One operation: its Call, and the clocks at its moments. What has not happened is None.

    `waited` is the moment from which the main thread did nothing but wait for the operation: its start
    where that came at once. `source` is the world rank from which a receive from any source got its
    message.
    """

    __slots__ = (
        "call", "start", "start_cpu", "posted", "waited", "waited_cpu", "end", "end_cpu", "source", "failed",
    )  # fmt: skip

    def __init__(self, call, start, start_cpu):
        self.call, self.start, self.start_cpu = call, start, start_cpu
        self.posted = start
        self.waited = self.waited_cpu = self.end = self.end_cpu = self.source = None
        self.failed = False

    def post(self):
        """The caller has handed the operation over and is free again."""
        self.posted = clock()

    def wait(self):
        """The caller begins to wait for the operation."""
        if self.waited is None:
            now = clock()
            if now - self.posted < OVERLAP:
                self.waited, self.waited_cpu = self.start, self.start_cpu
            else:
                self.waited, self.waited_cpu = now, cpu()

    def finish(self, failed=False, source=None):
        """The operation is over; only the first call counts."""
        if self.end is None:
            self.failed, self.source, self.end_cpu, self.end = failed, source, cpu(), clock()


def begin(call):
    """Enter a Call into the records; works only below the user's line, and only while a trace is on."""
    call.locate()
    record = Record(call, clock(), cpu())
    records.append(record)
    return record


@contextmanager
def blocking(call):
    """Record the block, which does all of the call, as one operation."""
    if records is None:
        yield
        return
    record = begin(call)
    record.wait()
    try:
        yield
    except BaseException:
        record.finish(failed=True)
        raise
    record.finish()
