"""Ctrl-C in the notebook, where an exception at any line would leave something half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_noted() -> Iterator[threading.Event]:
    """An Event that Ctrl-C sets. An exception could fall between a fault and its mending."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, however that ends."""
    noted = threading.Event()
    try:
        with interrupts_noted() as noted:
            yield
    finally:
        if noted.is_set():
            signal.raise_signal(signal.SIGINT)
