"""What this rank does at this moment, seen from another thread of its process.

The main thread may be blocked in a message; the control thread, which answers here, is not.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psutil
import torch

from labkit import mpi
from labkit.mpi import torch_internals
from labkit.mpi.messages import slow_link
from labkit.rank import awaiting, below, cells, gloo_works, kernel_waits, leftovers
from labkit.rank.cells import in_cell
from labkit.rank.protocol import AWAIT, COMPUTING, WAITING, Below, State

_MAIN = threading.main_thread().ident
_LOOK = 0.1
"""Seconds that a look may take before the main thread goes on meanwhile: hundreds of times what it takes, for
a crowded machine may keep the core from it."""


def state(rank: int) -> State:
    """This rank's state; `computing` stands for all that is no wait for another rank."""
    memory, moved = psutil.Process().memory_info().rss, kernel_waits.bytes_moved()
    with _main_thread_held():
        rests = _load.rests()
        waiting, place, deeper = _look(rests, moved)
    doing: dict[str, Any] = (
        {"doing": WAITING, **waiting} if waiting else {"doing": COMPUTING, "below": deeper}
    )
    if waiting and rests:  # unless it is a GPU that works, or a message that is held back until it is due
        doing["rests"] = not torch.cuda.is_initialized() and slow_link.link is None
    return State(
        rank, place=place, memory=memory, totals=leftovers.totals(), acts=kernel_waits.threads_act(), **doing
    )


def runs_a_cell() -> bool:
    """Whether this rank is in a cell at this moment."""
    with _main_thread_held():
        return bool(awaiting.awaits()) or any(map(in_cell, stack(sys._current_frames().get(_MAIN))))


@contextmanager
def _main_thread_held() -> Iterator[None]:
    """Python's main thread stands still inside, where nothing waits for a file.

    A frame that is looked at keeps the tensors of its function alive. Went the function on, the rank would
    need more memory than its program does, and who counts tensors would see it.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_LOOK)
    try:
        time.sleep(0)  # a main thread that waits already does so for as long as it was; now it begins anew
        yield
    finally:
        sys.setswitchinterval(before)


def _look(rests: bool, moved: tuple[str, ...]) -> tuple[dict[str, Any] | None, str, Below | None]:
    """For what the main thread waits, and the place in the cell. No frame outlives this."""
    frames = stack(sys._current_frames().get(_MAIN))
    cell = next((f for f in frames if in_cell(f)), None)
    inner = frames[: frames.index(cell)] if cell else []
    waiting = _waiting_in_mpi() or _waiting_in_c10d(inner) or _waiting_in_gloo()
    waiting = waiting or (_waiting_in_ddp(inner) if rests else None)
    deeper = None if waiting else below.look(frames, cell, rests, moved)
    if cell is None and (awaited := awaiting.awaits()):
        cell, woken_by = awaited
        if woken_by != {"thread"}:  # else a thread may wait, for whose end the cell waits
            waiting = None if woken_by else {"verb": AWAIT}
    return waiting, cells.place(cell.f_code.co_filename, cell.f_lineno) if cell else "", deeper


def stack(frame: FrameType | None) -> list[FrameType]:
    """Innermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _waiting_in_mpi() -> dict | None:
    """A wait in labkit's own backend, which knows what it waits for."""
    wait = mpi.status()
    if wait is None:
        return None
    return {
        "verb": wait.verb,
        "peers": wait.ranks,
        "number": wait.sequence or 0,
        "group": wait.group,
        "root": wait.root,
        "tag": wait.tag or 0,
        "since": wait.since,
    }


def _waiting_in_c10d(inner: list[FrameType]) -> dict | None:
    """A wait inside torch.distributed's Python layer, for backends that do not tell their own state."""
    import torch.distributed as dist

    calls = [f for f in inner if f.f_code.co_filename == torch_internals.FRAMES[0]]
    if not calls:
        return None
    call, names = calls[-1], calls[-1].f_locals  # the outermost: the verb that the cell called
    verb, group = call.f_code.co_name, names.get("group")
    group = group if isinstance(group, dist.ProcessGroup) else dist.group.WORLD
    if group is None or dist.get_backend(group) == "mpi":  # which would have told: it has not come to wait
        return None
    if verb in ("send", "recv"):
        name = "dst" if verb == "send" else "src"
        peer, in_group = names.get(name), names.get(f"group_{name}")
        if peer is None and in_group is not None:
            peer = dist.get_global_rank(group, in_group)
        return {"verb": verb, "peers": () if peer is None else (peer,), "tag": names.get("tag", 0)}
    return _collective(verb, group)


def _waiting_in_gloo() -> dict | None:
    """A wait for what was called asynchronously."""
    call = gloo_works.waiting(_MAIN)
    if call is None:
        return None
    verb = {"send": "isend", "recv": "irecv"}.get(call.verb, call.verb)
    told = {"verb": verb, "peers": tuple(call.ranks), "tag": call.tag or 0, "number": call.sequence or 0}
    return told | ({"group": call.group} if call.sequence else {})


_OF_DDP = {
    "_engine_run_backward": "all_reduce in backward",
    "_pre_forward": "DDP's agreement on its buckets",
    "_verify_param_shape_across_processes": "DDP's comparison of parameters",
    "_sync_module_states": "DDP's broadcast of parameters",
}
"""The functions from which DDP calls C++ that waits for other ranks, and what for."""


def _waiting_in_ddp(inner: list[FrameType]) -> dict | None:
    """A wait deep in C++ of a process that rests."""
    import torch.distributed as dist

    verb = next((_OF_DDP[f.f_code.co_name] for f in inner[:2] if f.f_code.co_name in _OF_DDP), None)
    group = dist.group.WORLD
    return _collective(verb, group) if verb and dist.get_backend(group) == "gloo" else None


def _collective(verb: str, group: Any) -> dict:
    import torch.distributed as dist

    return {
        "verb": verb,
        "peers": tuple(dist.get_process_group_ranks(group)),
        "number": gloo_works.number_of(group),
        "group": group.group_name,
    }


class _Load:
    """How busy this process has been since it was last asked for, all threads together."""

    def __init__(self) -> None:
        self._asked = self._used = 0.0

    def rests(self) -> bool:
        """Whether it has used next to none of a core, for long enough to tell."""
        now, used = time.monotonic(), time.process_time()
        since, share = now - self._asked, (used - self._used) / max(now - self._asked, 1e-3)
        self._asked, self._used = now, used
        return 0.1 < since < 2.0 and share < 0.1


_load = _Load()
