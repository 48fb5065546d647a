"""One cell on the ranks, from sending it to its end: done, failed, stuck, late, interrupted or dead."""

import time
from dataclasses import dataclass

from ipyparallel import AsyncResult
from ipyparallel.error import RemoteError

from labkit import report, watch
from labkit.errors import LabError

LOOK_AFTER = 0.25
"""Seconds between two looks at what the ranks do; a shorter cell is never looked at."""
RETURN_DEADLINE = 2.0
"""Seconds that interrupted ranks are given to come back before they are replaced."""


class CellError(Exception):
    """A cell that did not end well on every rank: which rank, what, and in which line."""

    def __init__(self, message: str, tracebacks: list[str] | None = None):
        super().__init__(message)
        self._tracebacks = tracebacks or []

    def _render_traceback_(self):
        return [*self._tracebacks, f"\x1b[31mCellError\x1b[0m: {self}"]


@dataclass(frozen=True)
class Outcome:
    """How a cell ended. `stopped` says why it was ended early, `after` what that did to the ranks."""

    said: tuple[report.Said, ...]
    stopped: str = ""
    after: str = ""

    def raise_for_failure(self) -> None:
        """CellError if the cell was stopped or any rank raised; each distinct traceback once."""
        failed = [s for s in self.said if s.failure and not (self.stopped and s.failure.is_interrupt())]
        if not failed and not self.stopped:
            return
        message = "\n".join(filter(None, [self.stopped, report.failures(failed), self.after]))
        distinct = {s.failure.message: "\n".join(s.failure.traceback) for s in reversed(failed)}
        raise CellError(message, list(distinct.values()))


def follow(lab, result: AsyncResult, deadline: float | None = None) -> Outcome:
    """Wait for a cell that was sent to `lab`; end it if it can never end, or at the deadline (seconds).

    Raises LabError if a rank dies under it. In every other case the lab is usable afterwards.
    """
    stopped = _wait(lab, result, deadline)
    if not stopped:
        result.wait_for_output(5)
        return Outcome(gather(result))
    _bring_back(lab, result)
    said = gather(result)
    if not stopped.startswith("deadlock"):  # a deadlock's verdict has said it
        held = [s for s in said if s.failure and s.failure.is_interrupt()]
        stopped = "\n".join(filter(None, [stopped, report.whereabouts(held)]))
    lost = sorted(set(result._targets) - {s.rank for s in said})
    if not lost:
        lab.recover()
        return Outcome(said, stopped)
    lab.restart()
    return Outcome(
        said, stopped, f"{report.ranks(lost)} could not be brought back: all ranks are new and empty"
    )


def _wait(lab, result: AsyncResult, deadline: float | None) -> str:
    """Until the cell is over (""), or else why it has to be stopped."""
    start = time.monotonic()
    looked, guard = start, watch.Watch()
    try:
        while not result.done():
            result.wait(0.05)
            now = time.monotonic()
            if deadline is not None and now - start > deadline:
                return f"the deadline of {deadline:g} s passed"
            if now - looked > LOOK_AFTER:
                looked = now
                if not lab.is_running():
                    raise lab.death()
                diagnosis = guard.look(states(lab, result), now)
                if diagnosis:
                    return diagnosis.sentence
    except KeyboardInterrupt:
        return "interrupted"
    return ""


def states(lab, result: AsyncResult) -> tuple[watch.State, ...]:
    """What every rank of the lab does about a cell now."""
    done = {s.rank: s for s in gather(result)}
    asked = [r for r in result._targets if r not in done]
    told = lab.ask_states(asked)
    return tuple(_state(r.rank, done.get(r.rank), told.get(r.rank), r.rank in asked) for r in lab.ranks)


def _state(rank: int, said: report.Said | None, told: watch.State | None, asked: bool) -> watch.State:
    if told:
        return told
    if asked:  # no answer: in C code that holds Python's lock
        return watch.State(rank, watch.COMPUTING)
    if said is None:
        return watch.State(rank, watch.ABSENT)
    if said.failure:
        return watch.State(rank, watch.RAISED, error=said.failure.in_one_line())
    return watch.State(rank, watch.FINISHED)


def _bring_back(lab, result: AsyncResult) -> None:
    """Interrupt the ranks that still run the cell, until they are back or it is too late.

    Again and again: an interrupt that comes before a rank has begun the cell is ignored there.
    """
    deadline = time.monotonic() + RETURN_DEADLINE
    while not result.done() and time.monotonic() < deadline:
        pairs = zip(result._targets, result._children, strict=True)
        lab.interrupt([rank for rank, child in pairs if not child.done()])
        result.wait(0.2)
    result.wait_for_output(0.5)


def gather(result: AsyncResult) -> tuple[report.Said, ...]:
    """What each rank that is done said in a cell, in rank order."""
    said = []
    for rank, child in zip(result._targets, result._children, strict=True):
        if child.done():
            record = child.output.metadata
            shown = [*record["outputs"], *filter(None, [record["execute_result"]])]
            displays = tuple(output["data"] for output in shown if "data" in output)
            said.append(report.Said(rank, record["stdout"], record["stderr"], displays, _failure(child)))
    return tuple(sorted(said, key=lambda s: s.rank))


def _failure(child) -> report.Failure | None:
    error = child.exception() or child.result()
    if isinstance(error, RemoteError):
        lines = tuple((error.traceback or "").splitlines())
        return report.Failure(error.ename, str(error.evalue), lines)
    return report.Failure(type(error).__name__, str(error)) if isinstance(error, Exception) else None


def require_ranks(lab) -> None:
    """LabError unless every rank lives."""
    if lab.is_running():
        return
    if not lab.has_started():
        raise LabError("a cell on the ranks", "this lab is stopped", "lab.restart()")
    dead = report.ranks(r.rank for r in lab.ranks if r.process() is None)
    raise LabError("a cell on the ranks", f"{dead} no longer alive", "lab.restart()")
