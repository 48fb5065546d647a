"""What a cell leaves on a rank: operations for which nobody waits, and a process group that was destroyed.

Its reply tells the notebook whether there is any, which costs no message. Only then are the ranks asked to
settle it, all at once.
"""

import linecache
import os
from typing import Any

import torch.distributed as dist
from mpi4py import MPI

from labkit.mpi.call import Call
from labkit.mpi.repair import leftovers, recovery
from labkit.mpi.world import existing
from labkit.rank import gloo_works, world
from labkit.rank.protocol import DESTROYED, LEFT, UNDER_WAY, WAITING, Leftover, State, in_the_cell

_VERBS = {"send": "isend", "recv": "irecv"}


def install(kernel: Any) -> None:
    """Tell in the reply to a cell what it has left, if anything."""
    finish = kernel.finish_metadata
    gloo_works.watch()

    def finish_cell(parent: dict, metadata: dict, reply: dict) -> Any:
        if parent["msg_type"] == "execute_request" and (left := _left()):
            # Of an error ipyparallel hands on no more than this.
            failed = reply["status"] == "error"
            place = reply.setdefault("engine_info", kernel.get_engine_info()) if failed else reply
            place[LEFT] = left
        return finish(parent, metadata, reply)

    kernel.finish_metadata = finish_cell


def _left() -> list[str]:
    here = existing()
    under_way = (here is not None and leftovers.pending(here)) or gloo_works.pending()
    destroyed = not dist.is_initialized()
    return [word for word, is_so in ((UNDER_WAY, under_way), (DESTROYED, destroyed)) if is_so]


def settle(everything: bool, rejoin: bool) -> list[Leftover]:
    """Have nothing under way, and a process group. Collective over all ranks, as are the arguments.

    With `everything` also what some rank gave up. `rejoin`: some rank has no process group. A backend but
    "mpi" can discard only its whole group; with a collective under way it cannot even do that, and is left.
    """
    if existing() is not None:
        left = recovery.settle(everything or rejoin, _LONGEST)
        told = [_told(leftover.call, leftover.fate, not leftover.ended) for leftover in left]
    else:
        told = [_told(call, fate, fate != "") for call, fate in gloo_works.settled()]
    ours = dist.is_initialized() and dist.get_backend() == "mpi"
    held = not ours and any(leftover.discarded and not leftover.is_message() for leftover in told)
    if (rejoin or (everything and not ours)) and not held:
        world.rejoin()
    return told


_LONGEST = 20.0  # seconds: the notebook waits longer


def _told(call: Call, fate: str, discarded: bool) -> Leftover:
    verb = _VERBS.get(call.verb, call.verb)
    rank = MPI.COMM_WORLD.rank
    what = State(rank, WAITING, verb, tuple(call.ranks), tag=call.tag or 0).what()
    return Leftover(rank, what, _place(*call.place), in_the_cell(fate), discarded)


def _place(file: str | None, line: int) -> str:
    if file is None:
        return ""
    name = "" if in_the_cell(file) != file else f"{os.path.basename(file)}, "
    return f"{name}line {line}: {linecache.getline(file, line).strip()}"
