"""The network knob on one rank: a token bucket for what it sends, one for what it receives.

A bucket fills at the link's bandwidth and holds nothing over: the last byte of a message is through when
enough has come for all messages before it and for itself. A message carries the moment at which it is due;
MPI may have it there sooner, but its receive ends only then. So what a program measures is what its messages
do, not a formula. What stays on a host, where the knob says how many ranks share one, is not held back.
Collectives are run as schedules of such messages (`labkit.mpi.collectives.by_schedule`).
"""

from __future__ import annotations

import struct
import time
from math import inf
from typing import TYPE_CHECKING

import torch

from labkit.mpi.hazards import temporaries
from labkit.mpi.hazards.watch import watch
from labkit.mpi.messages import checked
from labkit.mpi.record.position import position_above
from labkit.mpi.wire.runtime import MPI
from labkit.mpi.work import Receive, Work

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.group import Group

link: Link | None = None
"""This rank's link to all others; None while the knob is off."""

AT_ONCE = 0.0
"""When a message is due that no link holds back."""

_ABOVE = "begin_send", "send", "torch's isend"
_STAMP = struct.Struct("d")
_NAP, _PROBES = 0.0005, 8


class Bucket:
    """One direction of a link, in bytes per second."""

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth, self.busy_until = bandwidth, 0.0

    def through(self, nbytes: int, first: float = 0.0, last: float = 0.0) -> float:
        """When a message is through, after those before it: its bytes come from `first`, and until `last`."""
        self.busy_until = max(max(first, self.busy_until) + nbytes / self.bandwidth, last)
        return self.busy_until


class Link:
    """Both directions. `clock` reads the seconds of rank 0's clock, which all ranks can compare."""

    def __init__(self, bandwidth: float, latency: float, offset: float, ranks_per_host: int = 1) -> None:
        self.out, self.into, self.latency, self.offset = Bucket(bandwidth), Bucket(bandwidth), latency, offset
        self.ranks_per_host = ranks_per_host

    def clock(self) -> float:
        return time.perf_counter() + self.offset

    def leave(self, nbytes: int, rank: int, to: int) -> tuple[float, float]:
        """When a message from one world rank to another has left, and when it is due there."""
        if rank // self.ranks_per_host == to // self.ranks_per_host:
            return AT_ONCE, AT_ONCE
        left = self.out.through(nbytes, first=self.clock())
        return left, left + self.latency

    def arrive(self, nbytes: int, due: float) -> float:
        """When a message that is due then is through, after those before it."""
        return AT_ONCE if due == AT_ONCE else self.into.through(nbytes, last=due)


def limit(bandwidth: float, latency: float, offset: float = 0.0, ranks_per_host: int = 1) -> None:
    """Slow this rank's messages down to bytes per second, and seconds; inf and 0 take the limit off.

    All ranks do it at the same time, with nothing under way. `offset` is what makes this rank's
    `time.perf_counter` that of rank 0. Within a host, of so many consecutive ranks, nothing is slowed.
    """
    global link
    link = None if bandwidth == inf and latency == 0 else Link(bandwidth, latency, offset, ranks_per_host)


def begin_send(group: Group, call: Call, tensor: torch.Tensor, rank: int, tag: int) -> Work:
    """Begin to send; on a limited link the call is done when the last byte has left, and a receive begun."""
    if group.world.checked:  # its message will tell
        call.where = position_above(*_ABOVE)
    work, stamp = Work(group, call, None, [tensor]), b""
    if link is not None:
        work = _Send(group, call, None, [tensor])
        work.due, due = link.leave(call.bytes, group.ranks[group.me], *call.ranks)
        stamp = _STAMP.pack(due)
    step = checked.send(tensor, rank, tag, call, group.world.checked, stamp)
    group.begin_message(work, step)
    if group.world.checked:
        watch(work, [tensor], [])
    return work


def begin_receive(group: Group, call: Call, tensor: torch.Tensor, rank: int, tag: int) -> Work:
    """Begin to receive; on a limited link the call is done when the message is due."""
    if group.world.checked:  # an irecv that is never waited for is told with its line
        call.where = position_above(*_ABOVE)
    work, stamp = Receive(group, call, None, [tensor]), bytearray()
    if link is not None:
        work, stamp = _Receive(group, call, None, [tensor]), bytearray(_STAMP.size)
        work.stamp = stamp
    step = checked.receive(tensor, rank, tag, call, group.world.checked, work.received, stamp)
    group.begin_message(work, step)
    if group.world.checked:
        watch(work, [], [tensor])
        temporaries.watch(call, [tensor])
    return work


class _Send(Work):
    def finish(self) -> None:
        if self.error is not None or _is_due(self):
            super().finish()


class _Receive(Receive):
    due = None

    def finish(self) -> None:
        if self.error is None and link is not None:
            if self.due is None:
                (sent,) = _STAMP.unpack(self.stamp)
                self.due = link.arrive(self.call.bytes, sent)
            if not _is_due(self):
                return
        super().finish()


def _is_due(work: _Send | _Receive) -> bool:
    """Else sleep a little, for what waits here would take the core from ranks that compute."""
    left = 0.0 if link is None else work.due - link.clock()
    if left <= 0:
        return True
    for _ in range(_PROBES):  # other messages move only inside MPI's calls
        work.channel.comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)
    time.sleep(min(left, _NAP))
    return False
