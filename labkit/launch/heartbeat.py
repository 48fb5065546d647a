"""The heart monitor of a lab's controller is one of its threads.

ipyparallel gives it a process of its own. That can end alone: nobody is told, and no rank that comes later
is registered.
"""

import threading

from ipyparallel.controller import app


class _Beating(threading.Thread):
    """A thread where ipyparallel expects a process; it ends with the controller."""

    def terminate(self) -> None:
        pass


def in_a_thread() -> None:
    """From now on in this process, a controller's."""
    app.Process = _Beating
