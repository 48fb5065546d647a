"""Have the ranks of a lab record what they do, and make one trace of it."""

from contextlib import contextmanager
from dataclasses import dataclass

from labkit.cell import interrupts_noted
from labkit.errors import LabError
from labkit.trace import Trace
from labkit.trace.merge import merge


@dataclass(frozen=True)
class Last:
    """What is left of the last cell that ran with `%%px`, or of the last `with lab.trace()`."""

    trace: Trace | None = None


@contextmanager
def traced(lab):
    """The Trace of what the ranks do in the block; it has events when the block is left, in any way.

    Events of ranks that died, or had to be replaced, are lost, and then all are.
    """
    trace = Trace(len(lab), ())
    lab.last = Last(trace)
    _ask(lab, "start_recording")
    try:
        yield trace
    finally:
        with interrupts_noted():  # an exception here would leave ranks that still record
            if lab.is_running():
                told = _ask(lab, "stop_recording")
                trace._fill(merge([r for r in told if r is not None], len(lab)))
            lab.last = Last(trace)


def _ask(lab, function: str) -> list:
    try:
        return lab._call(function)
    except TimeoutError:
        raise LabError(
            "a trace", "some rank was busy with something else", "wait until no cell runs, then try again"
        ) from None
