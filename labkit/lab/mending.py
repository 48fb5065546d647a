"""Ranks that can be used again after a cell: nothing under way, or new ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from labkit import LabError
from labkit.lab import leftovers, remote
from labkit.lab.display.said import Said, together
from labkit.lab.outcome import Outcome
from labkit.lab.remote import Reachable
from labkit.launch.spare import Spare
from labkit.rank.protocol import Leftover, Totals
from labkit.rank.wording import ranks

NEW = "all ranks are new and empty"
"""What new processes mean to the learner."""
_ANSWER_WITHIN = 10.0
"""Seconds in which idle ranks tell what they have called, on a machine that does other work too."""


class Mendable(Reachable, Protocol):
    """What of a lab it takes to wait for a cell, and to have ranks that can be used after it."""

    @property
    def spare(self) -> Spare: ...

    def settle(self, everything: bool, rejoin: bool, stuck: bool = False) -> tuple[Leftover, ...]: ...

    def restart(self) -> object: ...


def settled(lab: Mendable, outcome: Outcome) -> Outcome:
    """The same, with nothing left under way: told, and ended on all ranks at once."""
    groups = leftovers.groups({r.rank: () for r in lab.ranks} | {s.rank: s.left.groups for s in outcome.said})
    unwaited = [x for s in outcome.said for x in s.dropped()]
    own = together((note, s.rank) for s in outcome.said for note in s.left.notes)
    outcome = replace(outcome, notes=_lines(outcome.notes, *(f"{ranks(who)}: {note}" for note, who in own)))
    pending = any(s.left.under_way or s.left.destroyed for s in outcome.said)
    totals = _totals(lab, outcome.said)
    if of_mpi4py := leftovers.unlike({rank: of.called_of_mpi4py for rank, of in totals.items()}):
        return _with_new_ranks(lab, outcome, of_mpi4py)
    uneven = leftovers.uneven({rank: dict(of.called) for rank, of in totals.items()})
    all_told = len(totals) == len(lab.ranks)
    sent_more = sum(of.sent_more for of in totals.values()) if all_told else 0
    balance = sum(of.balance for of in totals.values()) if all_told else 0
    if not (outcome.stopped or groups or uneven or pending or sent_more or balance):
        return replace(outcome, notes=_lines(outcome.notes, leftovers.notes(unwaited)))
    raised = [s.rank for s in outcome.said if s.failure]
    halted = [s.rank for s in outcome.said if outcome.stopped and s.failure and s.failure.is_interrupt()]
    destroyed = [s.rank for s in outcome.said if s.left.destroyed]
    try:
        everything = bool(outcome.stopped or groups or uneven or sent_more)
        told = lab.settle(everything, bool(destroyed), outcome.stuck)
        done = _discarded(lab, [x for x in told if x.discarded])
    except LabError as error:
        lab.require_alive()
        lab.restart()
        return replace(outcome, after=f"{error.found}: {NEW}")
    # Who was cut short could not go on to wait; who raised has told what failed.
    here = [x for x in told if x.rank not in halted and (x.discarded or x.rank not in raised)]
    left = leftovers.faults(here)
    if not outcome.stopped:
        unseen = _lines("" if left else uneven, leftovers.lost(sent_more, told))
        if unseen:
            left, done = _lines(left, unseen), done or leftovers.discarded(lab.ranks[0].backend)
        if groups and all(s.failure.name == "MismatchError" for s in outcome.said if s.failure):
            left = _lines(groups, left)
    anew = f"{ranks(destroyed)} destroyed the process group: all ranks have a new one" if destroyed else ""
    faulty = {(x.rank, x.what, x.place) for x in here if x.fate}
    dropped = [x for x in unwaited or here if (x.rank, x.what, x.place) not in faulty]
    notes = _lines(outcome.notes, leftovers.notes(dropped), anew)
    return replace(outcome, left=_lines(left, left and done), notes=notes)


def _totals(lab: Mendable, said: Sequence[Said]) -> dict[int, Totals]:
    """What ranks have called so far: those of the cell, and the others if none of them runs another cell."""
    totals = {s.rank: s.left.totals for s in said}
    others = [r.rank for r in lab.ranks if r.rank not in totals]
    if any(of != Totals() for of in totals.values()) and not lab.client.outstanding:
        told = remote.ask_states(lab, others, _ANSWER_WITHIN)
        totals |= {rank: state.totals for rank, state in told.items()}
    return totals


def _with_new_ranks(lab: Mendable, outcome: Outcome, uneven: str) -> Outcome:
    """What MPI has begun for a collective of mpi4py's cannot be seen or ended."""
    lab.restart()
    if outcome.stopped:
        return replace(outcome, after=f"{uneven}: {NEW}")
    return replace(outcome, left=_lines(uneven, leftovers.discarded("mpi4py", "the processes")))


def _lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _discarded(lab: Mendable, stuck: list[Leftover]) -> str:
    """What was done with operations that can never end; where the backend cannot discard them, it is done."""
    backend = lab.ranks[0].backend
    if not stuck or backend == "mpi" or all(x.of_mpi4py for x in stuck):
        return leftovers.discarded(backend) if stuck else ""
    stuck = [x for x in stuck if not x.of_mpi4py]
    if all(x.is_message() for x in stuck):
        lab.settle(everything=True, rejoin=True)
        return leftovers.discarded(backend, "the process group")
    lab.restart()  # to destroy the group would wait for a collective
    return leftovers.discarded(backend, "the processes")
