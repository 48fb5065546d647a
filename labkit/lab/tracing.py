"""Have the ranks of a lab record what they do, and make one trace of it."""

from contextlib import contextmanager
from dataclasses import dataclass

import ipyparallel as ipp

from labkit import LabError
from labkit.lab.cell import interrupts_noted
from labkit.trace import Trace
from labkit.trace.merge import merge


@dataclass(frozen=True)
class Last:
    """What the last `%%px --trace`, or the last `with lab.trace()`, has left."""

    trace: Trace | None = None


@contextmanager
def traced(lab):
    """The Trace of what the ranks do in the block; it has events when the block is left, in any way.

    If ranks died, or had to be replaced, all events are lost. LabError where a rank is busy, or where
    the block is inside another.
    """
    if lab.is_traced:
        raise LabError("a trace", "it is inside of another trace", "leave one of them out")
    trace = Trace(len(lab), ())
    _ask(lab, "start_recording")
    lab.is_traced, lab.last = True, Last(trace)
    try:
        yield trace
    finally:
        lab.is_traced = False
        with interrupts_noted():  # an exception here would leave ranks that still record
            if lab.is_running():
                told = _ask(lab, "stop_recording")
                found = merge([r for r in told if r is not None], len(lab))
                trace.events, trace.clock_error = found.events, found.clock_error


def _ask(lab, function: str) -> list:
    try:
        return lab._call(function)
    except (TimeoutError, ipp.error.CompositeError) as error:
        lab[:].apply_async(_stop)  # a rank that is busy does it when it has come to an end
        found = f"some rank was busy with something else ({type(error).__name__})"
        raise LabError(
            "a trace", found, "wait until no cell runs, or lab.restart(); then try again"
        ) from None


def _stop() -> None:
    """Runs on a rank."""
    from labkit.rank import recording

    recording.off()
