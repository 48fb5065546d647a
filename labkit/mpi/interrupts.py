"""Hold KeyboardInterrupt back for the few milliseconds in which it would strand other ranks."""

import signal
import threading
from contextlib import contextmanager


@contextmanager
def deferred_interrupts():
    """SIGINT during the block acts at its end. Off the main thread, where none arrives, no-op."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived = []
    before = signal.signal(signal.SIGINT, lambda *about: arrived.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if arrived and callable(before):
            before(*arrived[0])
