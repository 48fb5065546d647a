"""A plugin of coverage.py: every measured process writes its data while it runs.

A rank is ended by a signal, often SIGKILL from mpiexec, and would take along what it had measured.
coverage.py forgets what it has written, and with it what the program has done in the meantime. So it is the
main thread that writes, which then does nothing else; only where that is blocked another thread does.
"""

import _thread
import signal
import threading
import time

import coverage

EVERY = 0.3
"""Seconds between two writes."""
BLOCKED = 0.2
"""Seconds after which a main thread that has not begun to write is taken to be waiting for something."""
ASK = signal.SIGVTALRM
"""The signal whose handler writes; it is never sent, so that it interrupts no system call."""

_writing = threading.Lock()
_written = threading.Event()


def coverage_init(registry, options) -> None:
    """Called by coverage.py in each process when measuring begins."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(ASK, _write)
        threading.Thread(target=_ask, daemon=True).start()


def _ask() -> None:
    while True:
        time.sleep(EVERY)
        _written.clear()
        _thread.interrupt_main(ASK)
        if not _written.wait(BLOCKED):
            _write()


def _write(*_) -> None:
    measuring = coverage.Coverage.current()
    if measuring is not None and not _in_use(measuring) and _writing.acquire(blocking=False):
        try:
            measuring.save()
        finally:
            _writing.release()
    _written.set()


def _in_use(measuring: coverage.Coverage) -> bool:
    """Whether the data is locked, as where the signal came while the main thread entered a new file.

    It would wait for itself. There is no public way to ask.
    """
    lock = measuring._collector.data_lock
    return lock is not None and lock.locked()
