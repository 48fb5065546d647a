"""Checked mode and messages: a send ends when its receive has begun, and only where they fit."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .cases_checked import checked
from .world import usable


@checked
def a_send_of_four_bytes_waits_for_its_receive(w):
    if w.rank == 0:
        work = dist.isend(torch.ones(1), 1)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert not work.is_completed(), "a send was complete before anyone received"
        dist.send(torch.ones(1), 1, tag=1)
        work.wait()
    if w.rank == 1:
        got = torch.empty(1)
        dist.recv(got, 0, tag=1)  # by now rank 0 has seen its send incomplete
        dist.recv(got, 0)
        assert got.item() == 1


@checked
def two_blocking_sends_face_to_face_deadlock_whatever_their_size(w):
    """Wrong everywhere: on MPI's own terms the small one would pass and the large one would not."""
    from labkit.mpi import recover

    group = dist.new_group(timeout=timedelta(seconds=0.5))
    for n in (1, 100_000):
        try:
            dist.send(torch.ones(n), w.next, group=group)
        except dist.DistBackendError:
            recover()
            continue
        raise AssertionError(f"a send of {n} elements ended, and nobody received")
    usable(w)


@checked
def a_message_of_another_dtype_or_size_is_refused(w):
    for sent, room in (
        (torch.ones(4), torch.empty(4, dtype=torch.int32)),
        (torch.ones(4), torch.empty(6)),
    ):
        if w.rank == 0:
            dist.send(sent, 1)
        if w.rank == 1:
            try:
                dist.recv(room, 0)
            except dist.DistBackendError:
                continue
            raise AssertionError("the message did not fit, yet there was no error")
    usable(w)
