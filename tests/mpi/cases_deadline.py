"""Deadlines: a wait that has no end ends by an error that says what was waited for."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .table import case
from .world import usable

AMPLE = timedelta(seconds=60)  # for what must end well, however little of a core a rank gets


def late(seconds, call):
    """How long the call took to fail, and its error."""
    began = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        took = time.monotonic() - began
        assert seconds * 0.9 < took < seconds + 15.0, took
        return str(error)
    raise AssertionError("nobody came, yet the call ended")


def here(text: str) -> None:
    assert "cases_deadline.py" in text, text


@case(gloo=False)
def a_collective_ends_at_the_deadline_of_its_group(w):
    from labkit.mpi import recover

    group = dist.new_group(timeout=timedelta(seconds=0.5))
    if w.rank == 0:
        here(late(0.5, lambda: dist.all_reduce(torch.ones(2), group=group)))
        w.tell("too late")
    w.hear("too late")
    recover()
    group.set_timeout(AMPLE)
    t = torch.ones(2)
    dist.all_reduce(t, group=group)
    assert t.tolist() == [w.size, w.size]
    usable(w)


@case(gloo=False)
def a_recv_ends_at_the_deadline_and_the_group_stays_usable(w):
    group = dist.new_group(timeout=timedelta(seconds=0.4))
    here(late(0.4, lambda: dist.recv(torch.empty(2), w.next, group=group)))
    group.set_timeout(AMPLE)
    t = torch.ones(2)
    dist.all_reduce(t, group=group)
    assert t.tolist() == [w.size, w.size]


@case(gloo=False)
def a_work_can_be_waited_for_with_a_deadline_of_its_own(w):
    from labkit.mpi import recover

    if w.rank == 0:
        work = dist.all_reduce(torch.ones(2), async_op=True)
        here(late(0.3, lambda: work.wait(timedelta(seconds=0.3))))
        w.tell("too late")
    w.hear("too late")
    recover()
    usable(w)


@case(gloo=False)
def status_says_what_a_rank_waits_for(w):
    """From another thread, while the main one is blocked."""
    from labkit.mpi import status

    assert status() is None
    if w.rank == 0:
        seen = []

        def watch():
            while not (now := status()):
                time.sleep(0.01)
            seen.append(now)
            w.tell("seen")

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        dist.recv(torch.empty(2), 1, tag=5)
        watcher.join()
        assert seen[0].verb == "recv" and tuple(seen[0].ranks) == (1,) and seen[0].tag == 5, seen
        assert seen[0].file.endswith("cases_deadline.py") and seen[0].line > 0
    elif w.rank == 1:
        w.hear("seen")
        dist.send(torch.ones(2), 0, tag=5)
    assert status() is None
    usable(w)
