"""monitored_barrier: a barrier that names the ranks that did not come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from labkit.mpi.call import Call
from labkit.mpi.errors import DeadlineError
from labkit.mpi.record import record
from labkit.mpi.wire import steps
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.parts import Step
from labkit.mpi.wire.waiting import wait_until

if TYPE_CHECKING:
    from labkit.mpi.group import Group

_TAG = 1 << 10  # above it one tag for each barrier, so that who comes late disturbs none after it
_TAGS = 1 << 10


def monitored_barrier(group: Group, seconds: float, wait_all_ranks: bool) -> None:
    """Return when all ranks are here. DeadlineError on every rank that came, naming who did not.

    All report to rank 0 of the group, which answers with one byte for each rank: 1 if it came.
    `wait_all_ranks` names all who are missing, not the first only.
    """
    call = Call("monitored_barrier", group.named, group.ranks)
    group.refuse_if_tainted(call)
    group.sequence += 1
    call.sequence = group.sequence
    with record.blocking(call):
        came = _report(group, call, seconds)
    missing = [group.ranks[rank] for rank, here in enumerate(came.tolist()) if not here]
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        who = f"rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"
        raise DeadlineError(
            f"monitored_barrier on group {group.named!r}",
            f"{who} did not come within {seconds:g} s",
            "see what these ranks do instead",
        )


def _report(group: Group, call: Call, seconds: float) -> torch.Tensor:
    """Who came, as rank 0 of the group says: one byte for each rank."""
    tag, channel = _TAG + group.sequence % _TAGS, group.side
    others = [rank for rank in range(group.members) if rank != 0]
    if group.me == 0:
        came = torch.ones(group.members, dtype=torch.uint8)
        arrivals = {rank: steps.receive(torch.empty(1, dtype=torch.uint8), rank, tag) for rank in others}
        _await(channel, arrivals.values(), call, seconds)
        for rank, step in arrivals.items():
            came[rank] = step.done
            if not step.done:
                channel.cancel(step)
        for rank in others:
            channel.post(steps.send(came, rank, tag))
    else:
        came = torch.zeros(group.members, dtype=torch.uint8)
        answer = steps.receive(came, 0, tag)
        channel.post(steps.send(torch.ones(1, dtype=torch.uint8), 0, tag))
        # Rank 0 may have started its clock later than this rank.
        if not _await(channel, [answer], call, 2 * seconds):
            channel.cancel(answer)
            came[group.me] = came[others] = 1
    return came


def _await(channel: Channel, pending: Iterable[Step], call: Call, seconds: float) -> bool:
    """Post receives and wait for them; an interrupt takes them back."""
    pending = list(pending)
    try:
        for step in pending:
            channel.post(step)
        return wait_until(lambda: all([channel.test(step) for step in pending]), seconds, call)
    except KeyboardInterrupt:
        for step in pending:
            if step in channel.flying:
                channel.cancel(step)
        raise
