"""A plugin of coverage.py: every measured process writes its data while it runs.

A rank is ended by a signal, often SIGKILL from mpiexec, and would take along what it had measured.
"""

import threading
import time

import coverage

EVERY = 1.0
"""Seconds between two writes."""


def coverage_init(registry, options) -> None:
    """Called by coverage.py in each process when measuring begins."""
    threading.Thread(target=_write, daemon=True).start()


def _write() -> None:
    while True:
        time.sleep(EVERY)
        measuring = coverage.Coverage.current()
        if measuring is not None:
            measuring.save()
