"""One cell on the ranks, from sending it to its end: done, failed, stuck, late, interrupted or dead."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ipyparallel import AsyncResult
from ipyparallel.error import RemoteError

from labkit import LabError
from labkit.lab import leftovers, remote
from labkit.lab.diagnosis import Diagnosis, Watch
from labkit.lab.display.said import Failure, Said, failures, whereabouts
from labkit.lab.remote import Reachable
from labkit.launch.spare import Spare
from labkit.rank.protocol import (
    ABSENT,
    COMPUTING,
    DESTROYED,
    FINISHED,
    LEFT,
    RAISED,
    UNDER_WAY,
    WAITING,
    Leftover,
    State,
    cut,
    ranks,
)

LOOK_AFTER = 0.25
"""Seconds between two looks at what the ranks do; a shorter cell is never looked at."""
_NEW = "all ranks are new and empty"


class CellError(Exception):
    """A cell that did not end well on every rank: which rank, what, and in which line."""

    def __init__(self, message: str, tracebacks: list[str] | None = None) -> None:
        super().__init__(message)
        self._tracebacks = tracebacks or []

    def _render_traceback_(self) -> list[str]:
        return [*self._tracebacks, f"\x1b[31mCellError\x1b[0m: {self}"]


@dataclass(frozen=True)
class Outcome:
    """How a cell ended. `stopped` says why it was ended early, `after` what that did to the ranks.

    `left` is what it left under way, `notes` what else the learner should know.
    """

    said: tuple[Said, ...]
    stopped: str = ""
    left: str = ""
    after: str = ""
    notes: str = ""

    def raise_for_failure(self) -> None:
        """CellError if the cell was stopped, any rank raised, or something could not end."""
        failed = [s for s in self.said if s.failure and not (self.stopped and s.failure.is_interrupt())]
        if not (failed or self.stopped or self.left or self.after):
            return
        message = "\n".join(filter(None, [self.stopped, failures(failed), self.left, self.after]))
        distinct = {s.failure.message: "\n".join(s.failure.traceback) for s in reversed(failed)}
        raise CellError(message, list(distinct.values()))


Watcher = Callable[[tuple[Said, ...], tuple[State, ...], float], None]
"""Is shown what the ranks have said, what they do, and for how many seconds the cell has run."""


def nobody(said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> None:
    """The Watcher that is there when nobody watches."""


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


class Mendable(Reachable, Protocol):
    """What of a lab it takes to wait for a cell, and to have ranks that can be used after it."""

    @property
    def spare(self) -> Spare: ...

    def settle(self, everything: bool, rejoin: bool) -> tuple[Leftover, ...]: ...

    def restart(self) -> object: ...


def follow(
    lab: Mendable,
    result: AsyncResult,
    deadline: float | None = None,
    watch_it: Watcher = nobody,
    interrupted: threading.Event | None = None,
    keep_pending: bool = False,
) -> Outcome:
    """Wait for a cell that was sent to `lab`; end it early if it is stuck, interrupted or late.

    What it leaves under way is told and discarded, unless it may keep that. Raises LabError if a rank dies
    under it. In every other case the lab is usable afterwards.
    """
    with lab.spare.held():
        stop = _wait(lab, result, deadline, watch_it, interrupted or threading.Event())
        if stop is not None:
            return _stopped(lab, result, stop)
        result.wait_for_output(5)
        said = gather(result)
        to_settle = {word for s in said for word in s.left} - ({UNDER_WAY} if keep_pending else set())
        return _settled(lab, Outcome(said)) if to_settle else Outcome(said)


def _stopped(lab: Mendable, result: AsyncResult, stop: Diagnosis) -> Outcome:
    """End a cell early, and have ranks that can be used, the same or new ones."""
    _bring_back(lab, result, stop.stuck)
    said = tuple(s for s in gather(result) if s.done)
    where = "" if stop.stuck else whereabouts(said)
    stopped = "\n".join(filter(None, [stop.sentence, where]))
    lost = sorted(set(result._targets) - {s.rank for s in said})
    if not lost:
        return _settled(lab, Outcome(said, stopped))
    lab.restart()
    return Outcome(said, stopped, after=f"{ranks(lost)} could not be brought back: {_NEW}")


def _settled(lab: Mendable, outcome: Outcome) -> Outcome:
    """The same, with nothing left under way: told, and ended on all ranks at once."""
    raised = [s.rank for s in outcome.said if s.failure]
    halted = [s.rank for s in outcome.said if outcome.stopped and s.failure and s.failure.is_interrupt()]
    destroyed = [s.rank for s in outcome.said if DESTROYED in s.left]
    try:
        told = lab.settle(bool(outcome.stopped), bool(destroyed))
    except LabError as error:
        lab.require_alive()
        lab.restart()
        return replace(outcome, after=f"{error.found}: {_NEW}")
    done = _discarded(lab, [x for x in told if x.discarded])
    # Who was cut short could not go on to wait; who raised has told what failed.
    here = [x for x in told if x.rank not in halted and (x.discarded or x.rank not in raised)]
    left = leftovers.faults(here)
    anew = f"{ranks(destroyed)} destroyed the process group: all ranks have a new one" if destroyed else ""
    notes = "\n".join(filter(None, [leftovers.notes(here), anew]))
    return replace(outcome, left="\n".join(filter(None, [left, left and done])), notes=notes)


def _discarded(lab: Mendable, stuck: list[Leftover]) -> str:
    """What was done with operations that can never end; where the backend cannot discard them, it is done."""
    backend = lab.ranks[0].backend
    if not stuck or backend == "mpi":
        return leftovers.discarded(backend) if stuck else ""
    if all(x.is_message() for x in stuck):
        lab.settle(everything=True, rejoin=True)
        return leftovers.discarded(backend, "the process group")
    lab.restart()  # to destroy the group would wait for a collective
    return leftovers.discarded(backend, "the processes")


def _wait(
    lab: Mendable,
    result: AsyncResult,
    deadline: float | None,
    watch_it: Watcher,
    interrupted: threading.Event,
) -> Diagnosis | None:
    """Until the cell is over (None), or else why it has to be stopped."""
    start = time.monotonic()
    looked, guard = start, Watch()
    while not result.done():
        result.wait(0.05)
        now = time.monotonic()
        if interrupted.is_set():
            return Diagnosis((), "interrupted")
        if deadline is not None and now - start > deadline:
            return Diagnosis((), f"the deadline of {deadline:g} s passed")
        if now - looked > LOOK_AFTER:
            looked = now
            lab.require_running()
            said = gather(result)
            seen = states(lab, said)
            watch_it(said, seen, now - start)
            diagnosis = guard.look(seen, now)
            if diagnosis:
                return diagnosis
    return Diagnosis((), "interrupted") if interrupted.is_set() else None


def states(lab: Reachable, said: tuple[Said, ...]) -> tuple[State, ...]:
    """What every rank of the lab does now, about a cell in which the ranks have said that much."""
    told = remote.ask_states(lab, [s.rank for s in said if not s.done])
    by_rank = {s.rank: s for s in said}
    return tuple(told.get(r.rank) or _state(r.rank, by_rank.get(r.rank)) for r in lab.ranks)


def _state(rank: int, said: Said | None) -> State:
    if said is None:
        return State(rank, ABSENT)
    if not said.done:  # no answer: in C code that holds Python's lock
        return State(rank, COMPUTING)
    if said.failure:
        return State(rank, RAISED, error=said.failure.in_short())
    return State(rank, FINISHED)


def _bring_back(lab: Reachable, result: AsyncResult, stuck: tuple[int, ...]) -> None:
    """Interrupt the ranks that still run the cell, until they are back or there is no hope.

    Again and again: an interrupt that comes before a rank has begun the cell is ignored there.
    """
    deadline = time.monotonic() + remote.RETURN_DEADLINE * remote.crowded()
    seen: tuple[State, ...] = ()
    while (left := remote.running(result)) and time.monotonic() < deadline:
        remote.interrupt(lab, left)
        result.wait(remote.AGAIN)
        last, seen = seen, _out_of_reach(lab, left)
        if seen and (seen == last or set(left) <= set(stuck)):
            break
    told = [child.output for child in result._children if child.done()]
    deadline = time.monotonic() + 0.5
    while not all(output.done() for output in told) and time.monotonic() < deadline:
        time.sleep(0.01)


def _out_of_reach(lab: Reachable, left: list[int]) -> tuple[State, ...]:
    """Their states if all of these ranks wait in a backend that hears no interrupt, else nothing."""
    if any(lab.ranks[rank].backend == "mpi" for rank in left):
        return ()
    told = tuple(remote.ask_states(lab, left, remote.AGAIN).values())
    return told if all(state.doing == WAITING for state in told) else ()


def gather(result: AsyncResult) -> tuple[Said, ...]:
    """What each rank has said in a cell so far, in rank order."""
    said = []
    for rank, child in zip(result._targets, result._children, strict=True):
        record, done = child.output.metadata, child.done()
        shown = [*record["outputs"], *filter(None, [record["execute_result"]])]
        displays = tuple(output["data"] for output in shown if "data" in output)
        failure = _failure(child) if done else None
        left = _left(child) if done else ()
        said.append(Said(rank, record["stdout"], record["stderr"], displays, failure, done, left))
    return tuple(sorted(said, key=lambda s: s.rank))


def _failure(child: Any) -> Failure | None:
    error = child.exception() or child.result()
    if isinstance(error, RemoteError):
        lines = tuple((error.traceback or "").splitlines())
        return Failure(error.ename, cut(str(error.evalue)), lines)
    return Failure(type(error).__name__, cut(str(error))) if isinstance(error, Exception) else None


def _left(child: Any) -> tuple[str, ...]:
    """What a rank said that it has left, in its reply (`labkit.rank.leftovers`)."""
    reply = child.exception() or child.result()
    told = reply.engine_info if isinstance(reply, RemoteError) else getattr(reply, "_content", None)
    return tuple((told or {}).get(LEFT, ()))
