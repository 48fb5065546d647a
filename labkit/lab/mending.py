"""Ranks that can be used again after a cell: nothing under way, or new ones."""

from dataclasses import replace
from typing import Protocol

from labkit import LabError
from labkit.lab import leftovers
from labkit.lab.outcome import Outcome
from labkit.lab.remote import Reachable
from labkit.launch.spare import Spare
from labkit.rank.protocol import Leftover, ranks

NEW = "all ranks are new and empty"
"""What new processes mean to the learner."""


class Mendable(Reachable, Protocol):
    """What of a lab it takes to wait for a cell, and to have ranks that can be used after it."""

    @property
    def spare(self) -> Spare: ...

    def settle(self, everything: bool, rejoin: bool) -> tuple[Leftover, ...]: ...

    def restart(self) -> object: ...


def settled(lab: Mendable, outcome: Outcome) -> Outcome:
    """The same, with nothing left under way: told, and ended on all ranks at once."""
    groups = leftovers.groups({r.rank: () for r in lab.ranks} | {s.rank: s.left.groups for s in outcome.said})
    unwaited = [x for s in outcome.said for x in s.dropped()]
    pending = any(s.left.under_way or s.left.destroyed for s in outcome.said)
    uneven = leftovers.uneven({s.rank: dict(s.left.called) for s in outcome.said})
    if not (outcome.stopped or groups or uneven or pending or sum(s.left.balance for s in outcome.said)):
        return replace(outcome, notes=leftovers.notes(unwaited))
    raised = [s.rank for s in outcome.said if s.failure]
    halted = [s.rank for s in outcome.said if outcome.stopped and s.failure and s.failure.is_interrupt()]
    destroyed = [s.rank for s in outcome.said if s.left.destroyed]
    try:
        told = lab.settle(bool(outcome.stopped or groups or uneven), bool(destroyed))
    except LabError as error:
        lab.require_alive()
        lab.restart()
        return replace(outcome, after=f"{error.found}: {NEW}")
    done = _discarded(lab, [x for x in told if x.discarded])
    # Who was cut short could not go on to wait; who raised has told what failed.
    here = [x for x in told if x.rank not in halted and (x.discarded or x.rank not in raised)]
    left = leftovers.faults(here)
    if uneven and not (left or outcome.stopped):
        left, done = uneven, leftovers.discarded(lab.ranks[0].backend)
    if (
        groups
        and not outcome.stopped
        and all(s.failure.name == "MismatchError" for s in outcome.said if s.failure)
    ):
        left = "\n".join(filter(None, [groups, left]))
    anew = f"{ranks(destroyed)} destroyed the process group: all ranks have a new one" if destroyed else ""
    faulty = {(x.rank, x.what, x.place) for x in here if x.fate}
    dropped = [x for x in unwaited or here if (x.rank, x.what, x.place) not in faulty]
    notes = "\n".join(filter(None, [leftovers.notes(dropped), anew]))
    return replace(outcome, left="\n".join(filter(None, [left, left and done])), notes=notes)


def all_received(lab: Mendable, outcome: Outcome) -> Outcome:
    """The same, with no message on its way: a send that is not checked ends though nobody receives it."""
    more = sum(s.left.sent_more for s in outcome.said)
    if not more or outcome.after:
        return outcome
    lab.settle(everything=True, rejoin=False)
    many = "a message was" if more == 1 else f"{more} messages were"
    found = f"{many} sent and not received" if more > 0 else ""
    done = leftovers.discarded(lab.ranks[0].backend)
    return replace(outcome, left="\n".join(filter(None, [outcome.left, found, found and done])))


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
