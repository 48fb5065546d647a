"""recover(): after interrupts and deadlines everything is usable again, and nothing old in flight."""

import pickle
from itertools import starmap

from labkit.mpi.call import Call
from labkit.mpi.channel import Channel
from labkit.mpi.errors import DeadlineError
from labkit.mpi.interrupts import deferred_interrupts
from labkit.mpi.runtime import MPI
from labkit.mpi.settle import consistent, settle
from labkit.mpi.waiting import wait_until
from labkit.mpi.work import progress
from labkit.mpi.world import existing

_meetings = []  # pending barriers on the rescue communicator; more than one after an interrupt in here
_kept = []  # channels that could not be emptied, with the tensors that their requests may still write


def recover(timeout=30.0):
    """Make every group of this process usable again. Collective: every rank of the world calls it.

    It ends whatever is in flight on any group: waiting for that afterwards raises. Every rank must call it
    the same number of times, and a call that was interrupted counts. DeadlineError after
    `timeout` seconds if some rank does not come. Without any group it does nothing.
    """
    here = existing()
    if here is None:
        return
    call = Call("recover", "world", range(here.size))
    _meetings.extend(starmap(here.rescue.comm.Ibarrier, [()]))
    while _meetings:
        if not wait_until(lambda: _meetings[0].Test(), timeout, call):
            raise DeadlineError(
                "labkit.mpi.recover()", f"not all of {here.size} ranks called it within {timeout:g} s",
                "call it on every rank; restart the ranks if one cannot",
            )  # fmt: skip
        with deferred_interrupts(), progress:
            _meetings.pop(0)
            _rebuild(here)


def _rebuild(here):
    old, here.control = here.control, Channel(here.rescue.comm.Dup())
    here.tainted = None
    mine = {**here.abandoned, **here.groups}
    facts = {
        key: (group.ranks, key in here.groups, [channel.posted() for channel in (group.data, group.side)])
        for key, group in mine.items()
    }
    of_rank = _share(here.control.comm, (facts, old.posted()))
    _retire(old, [molds for _, molds in of_rank], here.control.comm)
    known = {key: ranks for facts, _ in of_rank for key, (ranks, *_) in facts.items()}
    for key in sorted(known):
        ranks = known[key]
        if here.rank not in ranks:
            continue
        # A member that destroyed the group in good order has freed its communicators.
        members = [of_rank[rank][0].get(key) for rank in ranks]
        if None in members:
            if key in mine:
                _kept.append(mine[key])
                mine[key].tainted = Call("destroy_process_group", key, ranks)
            continue
        group, comms = mine[key], here.fresh(list(ranks))
        for number, channel in enumerate((group.data, group.side)):
            _retire(channel, [posted[number] for _, _, posted in members], comms[0])
        if all(alive for _, alive, _ in members):
            group.connect(comms)
        else:
            for comm in comms:
                comm.Free()
    here.abandoned.clear()


def _retire(channel, molds, fresh):
    """Empty a channel and free its communicator, or keep both for ever where that fails."""
    channel.closed = True
    emptied = consistent(molds) and settle(channel, molds, fresh)
    if fresh.allreduce(emptied, MPI.LAND):
        channel.comm.Free()
    else:
        _kept.append(channel)


def _share(comm, thing):
    return [pickle.loads(data) for data in comm.allgather(pickle.dumps(thing))]
