"""The user's line of a recorded call: found by looking at every frame once, and at one frame from then on."""

from unittest import mock

import torch
import torch.distributed as dist

from .table import case


@case(gloo=False)
def a_line_that_calls_again_is_known_at_one_look(w):
    from labkit.mpi.record import position, record

    mine, theirs = torch.ones(2), torch.empty(2)

    def talk():
        dist.all_reduce(mine)
        dist.barrier()
        sending = dist.isend(mine, w.next)
        dist.irecv(theirs, w.previous).wait()
        sending.wait()
        dist.all_to_all_single(torch.empty(w.size), torch.ones(w.size))
        dist.all_gather_single(torch.empty(w.size), torch.ones(1))
        if w.rank % 2 == 0 and w.next > w.rank:
            dist.send(mine, w.next)
        elif w.rank % 2:
            dist.recv(theirs, w.previous)

    record.start()
    try:
        talk()
        with mock.patch.object(position, "_user_frame", side_effect=AssertionError("looked at every frame")):
            talk()
        calls = record.records
    finally:
        record.records = None
    first = talk.__code__.co_firstlineno
    lines = [call.place for call in calls]
    last = [9] if w.rank % 2 == 0 and w.next > w.rank else [11] if w.rank % 2 else []
    assert lines == 2 * [(__file__, first + n) for n in (1, 2, 3, 4, 6, 7, *last)], lines
