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
"""Seconds between two writes, at least."""
SHARE = 1 / 20
"""Of the time that writing may take: where many are measured at once it takes long."""
BLOCKED = 0.2
"""Seconds after which a main thread that has not begun to write is taken to be waiting for something."""
ASK = signal.SIGVTALRM
"""The signal whose handler writes; it is never sent, so that it interrupts no system call."""

_writing: threading.Lock
_written: threading.Event


def coverage_init(registry, options) -> None:
    """Called by coverage.py in each process when measuring begins, in a forked one too: it may have been
    forked while a thread that it does not have was writing."""
    global _writing, _written
    if threading.current_thread() is threading.main_thread():
        _writing, _written = threading.Lock(), threading.Event()
        signal.signal(ASK, _write)
        threading.Thread(target=_ask, daemon=True).start()


def _ask() -> None:
    took = 0.0
    while True:
        time.sleep(max(EVERY, took / SHARE))
        began = time.monotonic()
        _written.clear()
        _thread.interrupt_main(ASK)
        if not _written.wait(BLOCKED):
            _write()
        took = time.monotonic() - began


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
