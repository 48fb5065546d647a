"""What a cell leaves on a rank: operations for which nobody waits, and a process group that was destroyed.

Its reply tells the notebook whether there is any, which costs no message. Only then are the ranks asked to
settle it, all at once.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from weakref import WeakSet

import torch.distributed as dist
from IPython import get_ipython

from labkit.mpi import registration
from labkit.mpi.call import Call
from labkit.mpi.hazards import temporaries, watch
from labkit.mpi.repair import leftovers, recovery
from labkit.mpi.watched import settling
from labkit.mpi.watched import world as mpi4py
from labkit.mpi.wire.runtime import WORLD
from labkit.mpi.world import existing
from labkit.rank import cells, gloo_works, world
from labkit.rank.protocol import LEFT, WAITING, Left, Leftover, State, Totals
from labkit.rank.wording import in_the_cell

_notes: list[str] = []
"""What the learner should know of the cell that runs."""
_COMMUNICATION = ("KeyboardInterrupt", "CommunicationError", "MismatchError", "TaintedError", "DeadlineError")
"""Errors of a cell after which its threads may not call other ranks: these may be in another cell."""
_VERBS = {"send": "isend", "recv": "irecv"}


def install(kernel: Any) -> None:
    """Tell in the reply to a cell what it has left, if anything."""
    finish = kernel.finish_metadata
    gloo_works.watch()
    home, threads = os.getcwd(), WeakSet(threading.enumerate())

    def begin_cell(info: object) -> None:
        _notes.clear()
        threads.clear()
        threads.update(threading.enumerate())
        try:
            os.getcwd()
        except FileNotFoundError:  # many an import would fail
            os.chdir(home)
            note(f"the folder in which an earlier cell had left this rank is gone; it is in {home} again")

    get_ipython().events.register("pre_run_cell", begin_cell)

    def of_reply(reply: dict) -> dict:
        """Where it can tell something: of an error ipyparallel hands on no more than this."""
        failed = reply["status"] == "error"
        return reply.setdefault("engine_info", kernel.get_engine_info()) if failed else reply

    def finish_cell(parent: dict, metadata: dict, reply: dict) -> Any:
        if reply.get("ename") in _COMMUNICATION and (here := existing()) is not None:
            here.stray.update(set(threading.enumerate()).difference(threads))
        dropped, made = watch.dropped(), registration.made()
        for call, text in temporaries.lost():
            place = f" ({_place(*call.place)})"
            note(f"nobody keeps what {call.verb} wrote: {text} is a copy without a name{place}")
        if parent["msg_type"] == "execute_request" and (left := _left(dropped, made)) != Left():
            of_reply(reply)[LEFT] = asdict(left)
        return finish(parent, metadata, reply)

    kernel.finish_metadata = finish_cell


def note(sentence: str) -> None:
    """Tell the learner at the end of the cell."""
    if sentence not in _notes:
        _notes.append(sentence)


def _left(dropped: Sequence[Call], made: Sequence[Call]) -> Left:
    here = existing()
    raw = mpi4py.here
    under_way = (here is not None and leftovers.pending(here)) or gloo_works.pending() or raw.pending()
    return Left(
        under_way=bool(under_way),
        destroyed=not dist.is_initialized() or dist.get_backend() != world.backend(),
        dropped=tuple((x.what, x.place) for x in map(_told, dropped)),
        groups=tuple((f"new_group({list(call.ranks)})", _place(*call.place)) for call in made),
        notes=tuple(_notes),
        totals=totals(),
    )


def totals() -> Totals:
    """What this rank has called so far. From any thread, at any time: MPI is not asked."""
    here, raw = existing(), mpi4py.here
    unchecked = here is not None and not here.checked
    groups = here.groups.copy() if unchecked else {}
    comms = {} if raw is None or raw.checked else raw.comms.copy()
    return Totals(
        called=tuple((key, group.sequence) for key, group in groups.items()),
        called_of_mpi4py=tuple(
            (key, comm.called, comm.verbs) for key, comm in comms.items() if comm.members > 1
        ),
        sent_more=here.sent_more if unchecked else 0,
        balance=0 if raw is None else raw.balance,
    )


def settle(everything: bool, rejoin: bool, stuck: bool) -> list[Leftover]:
    """Have nothing under way, and a process group. Collective over all ranks, as are the arguments.

    With `everything` also what some rank gave up. `rejoin`: some rank has no process group. `stuck`: nothing
    was moving any more. A backend but "mpi" can discard only its whole group; with a collective under way it
    cannot even do that, and is left.
    """
    if existing() is not None:
        left = recovery.settle(everything or rejoin, _LONGEST)
        told = [_told(x.call, x.fate, not x.ended, x.waited) for x in left if x.fate or not x.call.by_torch]
    else:
        told = [
            _told(call, fate, fate != "", waited)
            for call, fate, waited in gloo_works.settled()
            if fate or not call.by_torch
        ]
    told += [_told_of_mpi4py(left) for left in settling.settle(stuck)]
    ours = dist.is_initialized() and dist.get_backend() == "mpi"
    discarded = [leftover for leftover in told if leftover.discarded and not leftover.of_mpi4py]
    held = not ours and not all(leftover.is_message() for leftover in discarded)
    if (rejoin or (everything and not ours)) and not held:
        world.rejoin()
    return told


_LONGEST = 20.0  # seconds: the notebook waits longer


def _told(call: Call, fate: str = "", discarded: bool = False, waited: bool = False) -> Leftover:
    verb = call.verb if waited else _VERBS.get(call.verb, call.verb)
    what = _what(call, verb) + (" in a thread" if waited else "")
    return Leftover(WORLD.rank, what, _place(*call.place), in_the_cell(fate), discarded, waited)


def _told_of_mpi4py(left: settling.Left) -> Leftover:
    call = left.what
    what = _what(call, _VERBS.get(call.verb, call.verb) if call.nonblocking else call.verb)
    fate, place = in_the_cell(left.fate), _place(*call.place)
    return Leftover(WORLD.rank, what, place, fate, left.discarded, left.waited, of_mpi4py=True)


def _what(call: Call, verb: str) -> str:
    return State(WORLD.rank, WAITING, verb, tuple(call.ranks), tag=call.tag or 0).what()


def _place(file: str | None, line: int) -> str:
    return cells.place(file, line) if file else ""
