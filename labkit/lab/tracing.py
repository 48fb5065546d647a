"""Have the ranks of a lab record what they do, and make one trace of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from labkit import LabError
from labkit.lab import remote
from labkit.lab.last import Last
from labkit.lab.remote import Reachable
from labkit.launch.interrupts import interrupts_noted
from labkit.trace import Trace


class Recordable(Reachable, Protocol):
    """What of a lab it takes to have its ranks record."""

    last: Last
    is_traced: bool


@contextmanager
def traced(lab: Recordable) -> Iterator[Trace]:
    """The Trace of what the ranks do in the block; it has events when the block is left, in any way.

    If ranks died, or had to be replaced, all events are lost. LabError where a rank is busy, or where
    the block is inside another.
    """
    if lab.is_traced:
        raise LabError("a trace", "it is inside of another trace", "leave one of them out")
    trace = Trace(len(lab.ranks), ())
    _call(lab, "start_recording")
    lab.is_traced, lab.last = True, replace(lab.last, trace=trace)
    try:
        yield trace
    finally:
        lab.is_traced = False
        with interrupts_noted():  # an exception here would leave ranks that still record
            if lab.is_running():
                told = _call(lab, "stop_recording")
                found = Trace.of([r for r in told if r is not None], len(lab.ranks))
                trace.events, trace.clock_error = found.events, found.clock_error


def _call(lab: Recordable, function: str) -> list[Any]:
    """A call that leaves no rank recording where it fails."""
    try:
        return remote.call(lab, function, asked="a trace")
    except BaseException:
        if lab.is_running():
            remote.send(lab, "drop_recording")
        raise
