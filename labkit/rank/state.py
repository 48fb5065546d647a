"""What this rank does at this moment, seen from another thread of its process.

The main thread may be blocked in a message; the control thread, which answers here, is not.
"""

import linecache
import sys
import threading
import time
from types import FrameType
from typing import Any

import psutil
from IPython import get_ipython

from labkit import mpi
from labkit.rank.protocol import COMPUTING, WAITING, State, cut

_PROCESS = psutil.Process()
_MAIN = threading.main_thread().ident
_C10D = "torch/distributed/distributed_c10d.py"


def state(rank: int) -> State:
    """This rank's state; `computing` stands for all that is no wait for another rank."""
    frames = stack(sys._current_frames().get(_MAIN))
    cell = next((f for f in frames if in_cell(f)), None)
    inner = frames[: frames.index(cell)] if cell else []
    waiting = _waiting_in_mpi() or _waiting_in_c10d(inner) or _waiting_in_backward(inner)
    place = _place(cell) if cell else ""
    memory = _PROCESS.memory_info().rss
    doing: dict[str, Any] = {"doing": WAITING, **waiting} if waiting else {"doing": COMPUTING}
    return State(rank, place=place, memory=memory, **doing)


def in_cell(frame: FrameType) -> bool:
    """Whether a frame runs code of a cell, or of a function defined in one."""
    shell = get_ipython()
    return shell is not None and frame.f_globals is shell.user_ns and frame.f_code.co_filename != "<string>"


def stack(frame: FrameType | None) -> list[FrameType]:
    """Innermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _place(frame: FrameType) -> str:
    line = frame.f_lineno
    return f"line {line}: {cut(linecache.getline(frame.f_code.co_filename, line).strip())}"


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
        "tag": wait.tag or 0,
        "since": wait.since,
    }


def _waiting_in_c10d(inner: list[FrameType]) -> dict | None:
    """A wait inside torch.distributed's Python layer, for backends that do not tell their own state."""
    import torch.distributed as dist

    calls = [f for f in inner if f.f_code.co_filename.endswith(_C10D)]
    if not calls:
        return None
    call, names = calls[-1], calls[-1].f_locals  # the outermost: the verb that the cell called
    verb, group = call.f_code.co_name, names.get("group")
    if verb in ("send", "recv"):
        peer = names.get("dst" if verb == "send" else "src")
        return {"verb": verb, "peers": () if peer is None else (peer,), "tag": names.get("tag", 0)}
    return _collective(verb, group if isinstance(group, dist.ProcessGroup) else dist.group.WORLD)


def _waiting_in_backward(inner: list[FrameType]) -> dict | None:
    """A wait of DDP, deep in autograd's C++, seen by what it does not do: the process rests."""
    import torch.distributed as dist

    rests = _load.rests()
    if not inner or inner[0].f_code.co_name != "_engine_run_backward" or not rests:
        return None
    group = dist.group.WORLD
    return _collective("all_reduce in backward", group) if dist.get_backend(group) == "gloo" else None


def _collective(verb: str, group: Any) -> dict:
    import torch.distributed as dist

    return {
        "verb": verb,
        "peers": tuple(dist.get_process_group_ranks(group)),
        "number": group._get_backend(group._device_types[0])._get_sequence_number_for_group(),
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
