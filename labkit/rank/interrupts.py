"""Where an interrupt lands on a rank: in the cell, at a point where nothing is left half done.

Between cells it is ignored. In the middle of `optimizer.step()` it would leave some parameters
updated and others not, in the middle of an import a module that is broken for ever after. There
it waits, and is raised at the next line of the code that called those.
"""

import os
import signal
import sys
from itertools import takewhile
from types import FrameType
from typing import Any, NoReturn

from labkit.mpi import watched
from labkit.mpi.wire.waiting import wait_until
from labkit.rank import awaiting, debugger
from labkit.rank.cells import in_cell
from labkit.rank.state import stack

_WATCHED = os.path.dirname(watched.__file__) + os.sep

_traced: list = []
"""What traced when an interrupt had to wait, a debugger or what measures coverage; to be set again."""


def install(kernel: Any) -> None:
    """Use this handler while the kernel handles a request; an idle rank ignores interrupts."""
    kernel.pre_handler_hook = lambda: signal.signal(signal.SIGINT, _on_interrupt)
    kernel.post_handler_hook = _end_of_request
    _between_cells()


def _between_cells() -> None:
    """Whatever a cell has set: SIGTERM ends this process, and those that a later cell forks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing to save: end at once


def _end_of_request() -> None:
    _between_cells()
    while _traced:  # Python has switched tracing off, as whenever a trace function raises
        sys.settrace(_traced.pop())


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    frames = stack(frame)
    if debugger.stop():
        raise KeyboardInterrupt
    if not any(map(in_cell, frames)):
        awaiting.interrupt()
        return
    inner = list(takewhile(lambda f: f.f_code is not wait_until.__code__ and not in_cell(f), frames))
    whole = [i for i, f in enumerate(frames) if _must_be_whole(f) or (i < len(inner) and _calls_mpi(f))]
    if not whole:
        raise KeyboardInterrupt
    caller = frames[whole[-1] + 1]
    caller.f_trace = _raise_now  # called at that frame's next line, once any tracing is on
    _traced.append(sys.gettrace())
    sys.settrace(lambda *event: None)


def _raise_now(frame: FrameType, event: str, argument: object) -> NoReturn:
    frame.f_trace = None
    raise KeyboardInterrupt


def _calls_mpi(frame: FrameType) -> bool:
    """Whether a frame has a request in its hands, which an exception would lose."""
    return frame.f_code.co_filename.startswith(_WATCHED)


def _must_be_whole(frame: FrameType) -> bool:
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    return (function == "step" and "torch/optim/" in file) or file.startswith("<frozen importlib")
