"""What this process records of its communication while a trace is on. Off, it costs a test of None.

A record is made where an operation is entered and completed where it ends, so what never ends is there
too. Names are looked up when the recording is over (`labkit.recording`).
"""

import threading
import time
from contextlib import contextmanager
from functools import partial

from labkit.mpi.call import user_line

OVERLAP = 200_000
"""Nanoseconds between posting an operation and waiting for it from which on the rank did other work."""

ABSENCE = 20_000_000
"""Nanoseconds for which a busy machine may keep a rank off the core: that long it may have done nothing."""

READ_EVERY = 50_000
"""Nanoseconds between two looks at the processor's clock: a system call, 2 % of a short operation."""

records: list | None = None
"""One Record for each operation, in the order in which they were entered; None while no trace is on."""

clock = time.perf_counter_ns
"""Nanoseconds; the same clock in all processes of one machine. Replaceable: tests set it wrong."""


def _cpu_clock():
    """A clock of the main thread's processor time, readable from any thread where the system allows."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(threading.main_thread().ident))


_read = _cpu_clock()
_seen = 0, 0  # when it was read last, and what it said


def cpu(now):
    """Processor time of the main thread at the moment `now` of the clock, in nanoseconds.

    Right to READ_EVERY: since a look as recent as that, the thread is taken to have had the core.
    """
    global _seen
    at, used = _seen
    since = now - at
    if 0 <= since < READ_EVERY:
        return used + since
    used = _read()
    _seen = now, used
    return used


class Record:
    """One operation: its Call, and the clocks at its moments. What has not happened is None.

    `posted` is when it was handed over. `waited` is the moment from which the main thread did nothing but
    wait for it: its start where that came at once. `source` is the world rank from which a receive got
    its message.
    """

    __slots__ = (
        "call",
        "start",
        "start_cpu",
        "posted",
        "waited",
        "waited_cpu",
        "end",
        "end_cpu",
        "source",
        "failed",
    )

    def __init__(self, call, start, start_cpu):
        self.call, self.start, self.start_cpu = call, start, start_cpu
        self.posted = self.waited = self.waited_cpu = self.end = self.end_cpu = self.source = None
        self.failed = False

    def wait(self):
        """The caller begins to wait for the operation."""
        if self.waited is None:
            now = clock()
            since = now - (self.posted or now)
            if since < OVERLAP or (since < ABSENCE and cpu(now) - self.start_cpu < OVERLAP):
                self.waited, self.waited_cpu = self.start, self.start_cpu
            else:
                self.waited, self.waited_cpu = now, cpu(now)

    def finish(self, failed=False, source=None):
        """The operation is over; only the first call counts."""
        if self.end is None:
            self.end = now = clock()
            self.end_cpu = cpu(now)
            self.failed, self.source = failed, source


def begin(call):
    """Enter a Call into the records; works only below the user's line, and only while a trace is on."""
    if call.place is None:
        call.place = user_line()
    now = clock()
    record = Record(call, now, cpu(now))
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
