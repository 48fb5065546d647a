"""What this process records of its communication while a trace is on. Off, it costs a test of None.

A record is made where an operation is entered and completed where it ends, so what never ends is there
too. Names are looked up when the recording is over (`labkit.recording`).
"""

import threading
import time
from bisect import bisect
from contextlib import contextmanager
from functools import partial
from operator import itemgetter

from labkit.mpi.call import user_frame

OVERLAP = 200_000
"""Nanoseconds between posting an operation and waiting for it from which on the rank did other work."""

ABSENCE = 20_000_000
"""Nanoseconds for which a busy machine may keep a rank off the core: that long it may have done nothing."""

LOOK_EVERY = 250_000
"""Nanoseconds between two looks at the processor's clock: a system call, which takes 0.3 to 0.7 us."""

records: list | None = None
"""One Record for each operation, in the order in which they were entered; None while no trace is on."""

looks: list[tuple[int, int]] = []
"""What the main thread had used of its processor, and when, in nanoseconds; in the order of time."""

_looked = 0  # when last

clock = time.perf_counter_ns
"""Nanoseconds; the same clock in all processes of one machine. Replaceable: tests set it wrong."""


def _cpu_clock():
    """A clock of the main thread's processor time, readable from any thread where the system allows."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(threading.main_thread().ident))


_read = _cpu_clock()


def start():
    """Record from now on."""
    global records
    records = []
    looks.clear()
    look(clock())


def look(now):
    """Remember what the main thread has used of its processor."""
    global _looked
    _looked = now
    looks.append((now, _read()))


def cpu(moment):
    """Processor time of the main thread at a moment of the clock when something was recorded, in nanoseconds.

    Right to LOOK_EVERY: since the last look before it the thread is taken to have had the core.
    """
    at, used = looks[max(0, bisect(looks, moment, key=itemgetter(0)) - 1)]
    return used + moment - at


class Record:
    """One operation: its Call, and the clock at its moments. What has not happened is None.

    `posted` is when it was handed over. `waited` is the moment from which the main thread did nothing but
    wait for it: its start where that came at once. `source` is the world rank from which a receive got
    its message. `where` is the user's code, and how far it had come; its line is found when somebody asks.
    """

    call = start = posted = waited = end = source = where = None
    failed = False
    # No __init__: it would take longer than all else here.

    def wait(self):
        """The caller begins to wait for the operation."""
        if self.waited is None:
            now = clock()
            since = now - (self.posted or now)
            self.waited = self.start if since < OVERLAP or self._idle(since, now) else now

    def _idle(self, since, now):
        """Whether the rank has done nothing for that long."""
        look(now)
        return since < ABSENCE and cpu(now) - cpu(self.start) < OVERLAP

    def place(self):
        """(file, line) of the user's line, or (None, 0)."""
        if self.where is None:
            return None, 0
        code, at = self.where
        return code.co_filename, next(line for start, end, line in code.co_lines() if start <= at < end)

    def finish(self, failed=False, source=None):
        """The operation is over; only the first call counts."""
        if self.end is None:
            self.end = now = clock()
            if not 0 <= now - _looked < LOOK_EVERY:
                look(now)
            if failed or source is not None:
                self.failed, self.source = failed, source


def begin(call, below=0):
    """Enter a Call into the records; works only below the user's line, and only while a trace is on.

    `below` callers of this function's own belong to this package.
    """
    now = clock()
    if not 0 <= now - _looked < LOOK_EVERY:
        look(now)
    record = Record()
    record.call, record.start = call, now
    records.append(record)
    frame = user_frame(below + 1)
    if frame is not None:
        record.where = frame.f_code, frame.f_lasti
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
