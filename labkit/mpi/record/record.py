"""What this process records of its communication while a trace is on. Off, it costs a test of None.

What is recorded is the Call itself: it is kept from where it is entered on, so what never ends is there too,
and it notes its moments as they come. Names are looked up when it is over (`labkit.rank.recording`).
"""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.mpi.call import Call

OVERLAP = 200_000
"""Nanoseconds between posting an operation and waiting for it from which on the rank did other work."""

ABSENCE = 20_000_000
"""Nanoseconds for which a busy machine may keep a rank off the core: that long it may have done nothing."""

LOOK_EVERY = 500_000
"""Nanoseconds between two looks at the processor's clock: a system call, which takes 0.3 to 0.7 us."""

records: list[Call] | None = None
"""The Call of each operation, in the order in which they were entered; None while no trace is on."""

looks: list[tuple[int, int]] = []
"""What the main thread had used of its processor, and when, in nanoseconds; in the order of time."""

_due = 0  # when to look again

clock = time.perf_counter_ns
"""Nanoseconds; the same clock in all processes of one machine. Replaceable: tests set it wrong."""


def _read() -> int:
    """Nanoseconds for which the main thread had a processor; from any thread where the system allows."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time_ns()
    # Asked for each time: a fork's main thread has another clock.
    return time.clock_gettime_ns(time.pthread_getcpuclockid(threading.main_thread().ident))


def start() -> None:
    """Record from now on."""
    global records
    records = []
    looks.clear()
    look(clock())


def look(now: int) -> None:
    """Remember what the main thread has used of its processor."""
    global _due
    _due = now + LOOK_EVERY
    looks.append((now, _read()))


def cpu(moment: int) -> int:
    """Processor time of the main thread at a moment of the clock when something was recorded, in nanoseconds.

    Since the last look before it the thread is taken to have had the core, as far as the next look allows.
    """
    after = bisect(looks, moment, key=itemgetter(0))
    at, used = looks[max(0, after - 1)]
    used += moment - at
    return used if after == len(looks) else min(used, looks[after][1])


def begin(call: Call, at_once: bool = False) -> None:
    """A Call is entered; only while a trace is on. `at_once`: its caller does nothing but wait."""
    call.start = now = clock()
    if now >= _due:
        look(now)
    if at_once:
        call.waited = now
    records.append(call)


def wait(call: Call) -> None:
    """Its caller begins to wait."""
    if call.waited is None:
        now = clock()
        since = now - (call.posted or now)
        call.waited = call.start if since < OVERLAP or _idle(call, since, now) else now


def _idle(call: Call, since: int, now: int) -> bool:
    """Whether the rank has done nothing for that long."""
    look(now)
    return since < ABSENCE and cpu(now) - cpu(call.start) < OVERLAP


def finish(call: Call, failed: bool = False, source: int | None = None) -> None:
    """It is over."""
    call.end = now = clock()
    if now >= _due:
        look(now)
    call.failed, call.source = failed, source


@contextmanager
def blocking(call: Call) -> Iterator[None]:
    """Record the block, which does all of the call, as one operation."""
    if records is None:
        yield
        return
    call.locate()
    begin(call, at_once=True)
    try:
        yield
    except BaseException:
        finish(call, failed=True)
        raise
    finish(call)
