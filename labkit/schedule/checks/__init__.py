"""What is wrong with a schedule, found without running it: one sentence each, with ranks and step.

violation   one thing that is wrong
ordering    operations that do not fit each other: no match, a race, a circle of waiting
contents    data that is missing, sums that lack a part or count it twice
budget      too many steps or bytes, too much memory
pipeline    the same of a pipeline, said of its slots
"""

from __future__ import annotations

from labkit import LabError
from labkit.schedule.checks.budget import Budget, over_budget
from labkit.schedule.checks.contents import missing_data, wrong_sums
from labkit.schedule.checks.ordering import deadlocks, lost_messages, races, wrong_chunks, wrong_peers
from labkit.schedule.checks.violation import Violation
from labkit.schedule.description import Schedule


def violations(
    schedule: Schedule, *, all_reduce: bool = False, budget: Budget | None = None
) -> tuple[Violation, ...]:
    """Everything wrong with a schedule, in the order in which a learner should mend it.

    Peers that do not exist, messages that nobody receives or sends, wrong chunks, two operations on one
    chunk in a step, deadlock, data that a rank does not hold; with `all_reduce` also any sum that lacks a
    rank's part or counts it twice; with a budget what exceeds it. Built in lesson 07.
    """
    found = [*wrong_peers(schedule), *lost_messages(schedule), *wrong_chunks(schedule), *races(schedule)]
    found += deadlocks(schedule)
    found = found or missing_data(schedule)
    if not found and all_reduce:
        found += wrong_sums(schedule)
    if not found and budget:
        found += over_budget(schedule, budget)
    return tuple(found)


def check(schedule: Schedule, *, all_reduce: bool = False, budget: Budget | None = None) -> None:
    """Raise a LabError that says all `violations`; None if there are none. Built in lesson 07."""
    found = violations(schedule, all_reduce=all_reduce, budget=budget)
    if found:
        wanted = "a correct all-reduce" if all_reduce else "a correct schedule"
        raise LabError(wanted, "\n       ".join(map(str, found)), "mend the first one first")
