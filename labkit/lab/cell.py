"""One cell on the ranks, from sending it to its end: done, failed, stuck, late, interrupted or dead."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from ipyparallel import AsyncResult

from labkit.lab import remote
from labkit.lab.conversation import Conversation
from labkit.lab.diagnosis import Diagnosis, Watch
from labkit.lab.display.said import Said, whereabouts
from labkit.lab.history import History
from labkit.lab.mending import NEW, Mendable, settled
from labkit.lab.outcome import Outcome, gather
from labkit.lab.remote import Reachable
from labkit.lab.replay import replay
from labkit.rank.protocol import ABSENT, COMPUTING, FINISHED, RAISED, WAITING, Remembered, State, Totals
from labkit.rank.wording import ranks

LOOK_AFTER = 0.25
"""Seconds between two looks at what the ranks do; a shorter cell is never looked at."""
SHARE = 1 / 8
"""Of the processor's time that the notebook may take for looks: those at hundreds of ranks are fewer."""

Watcher = Callable[[tuple[Said, ...], tuple[State, ...], float], None]
"""Is shown what the ranks have said, what they do, and for how many seconds the cell has run."""


def nobody(said: tuple[Said, ...], states: tuple[State, ...], seconds: float) -> None:
    """The Watcher that is there when nobody watches."""


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
        if any(s.failure and s.failure.is_interrupt() for s in said):  # by whoever has taken the ranks?
            lab.require_running()
        history = _history(lab, said) if any(s.failure for s in said) else None
        if keep_pending:
            kept = [replace(s.left, under_way=False, dropped=(), totals=Totals()) for s in said]
            said = tuple(map(lambda s, left: replace(s, left=left), said, kept))
        return settled(lab, Outcome(said, history=history))


def _stopped(lab: Mendable, result: AsyncResult, stop: Diagnosis) -> Outcome:
    """End a cell early, and have ranks that can be used, the same or new ones."""
    history = _history(lab, gather(result)) if stop.stuck else None  # who interrupts wants it to end now
    _bring_back(lab, result, stop.stuck)
    said = tuple(s for s in gather(result) if s.done)
    where = "" if stop.stuck else whereabouts(said)
    stopped = "\n".join(filter(None, [stop.sentence, where]))
    lost = sorted(set(result._targets) - {s.rank for s in said})
    if not lost:
        return settled(lab, Outcome(said, stopped, history=history, stuck=bool(stop.stuck)))
    lab.restart()
    return Outcome(said, stopped, after=f"{ranks(lost)} could not be brought back: {NEW}", history=history)


def _history(lab: Reachable, said: tuple[Said, ...]) -> History | None:
    """How the cell came to where it is; None if some rank cannot tell now."""
    remembered = remote.ask_remembered(lab, [r.rank for r in lab.ranks])
    ended = states(lab, said)
    if len(remembered) < len(ended):
        return None
    here = [m if s.doing != ABSENT else Remembered() for m, s in zip(remembered, ended, strict=True)]
    return replay(here, ended)


def _wait(
    lab: Mendable,
    result: AsyncResult,
    deadline: float | None,
    watch_it: Watcher,
    interrupted: threading.Event,
) -> Diagnosis | None:
    """Until the cell is over (None), or else why it has to be stopped."""
    start = time.monotonic()
    looked, guard = start, Watch(one_machine=not lab.plan.is_remote)
    took = [0.0, 0.0]  # seconds of the processor, by the last two looks; a first one may import something
    conversation = Conversation(lab, interrupted)
    while not result.done():
        result.wait(0.05)
        now = time.monotonic()
        if interrupted.is_set():
            return Diagnosis((), "interrupted")
        if deadline is not None and now - start > deadline:
            return Diagnosis((), f"the deadline of {deadline:g} s passed")
        if now - looked > max(LOOK_AFTER, min(took) / SHARE):
            looked, before = now, time.process_time()
            lab.require_running()
            said = gather(result)
            seen = states(lab, said)
            watch_it(said, seen, now - start)
            if any(state.stop for state in seen):
                conversation.hold(seen)
                start += time.monotonic() - now  # the deadline is on hold
            diagnosis = guard.look(seen, now)
            if diagnosis:
                return diagnosis
            took = [took[1], time.process_time() - before]
    return Diagnosis((), "interrupted") if interrupted.is_set() else None


def states(lab: Reachable, said: tuple[Said, ...]) -> tuple[State, ...]:
    """What every rank of the lab does now, about a cell in which the ranks have said that much."""
    told = remote.ask_states(lab, [s.rank for s in said if not s.done])
    by_rank = {s.rank: s for s in said}
    known = {rank: _with_holders(lab, state) if state.below else state for rank, state in told.items()}
    return tuple(known.get(r.rank) or _state(r.rank, by_rank.get(r.rank)) for r in lab.ranks)


def _with_holders(lab: Reachable, state: State) -> State:
    """A state that names ranks in place of processes, where none of them may still do its part."""
    host = next(r.host for r in lab.ranks if r.rank == state.rank)
    by_pid = {r.pid: r.rank for r in lab.ranks if r.host == host}
    holders = {by_pid.get(pid) for pid in state.below.holders}
    others = sorted(rank for rank in holders if rank not in (None, state.rank))
    asked = remote.ask_states(lab, others)  # they may have ended the cell, and left a thread that goes on
    if None in holders or len(asked) < len(others) or any(s.acts for s in asked.values()):
        return replace(state, below=None)
    return replace(state, below=replace(state.below, peers=tuple(others))) if others else state


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
        if not lab.is_running():
            lab.require_alive()
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
    """Their states if all of these ranks wait in C code that hears no interrupt, else nothing."""
    told = tuple(remote.ask_states(lab, left, remote.AGAIN).values())
    return told if all(_is_deaf(state, lab) for state in told) else ()


def _is_deaf(state: State, lab: Reachable) -> bool:
    if state.doing == WAITING:
        return lab.ranks[state.rank].backend != "mpi"
    return state.below is not None and state.below.deaf
