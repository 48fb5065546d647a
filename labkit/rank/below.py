"""A call from which the main thread does not come back, below all that labkit watches; seen from beside it.

Three things tell a wait for ever from work. Python's main thread has not come back to Python: a mark that it
would take away at once stays. What it has called, by the source of the line: a call of MPI's that blocks
spins, so it is known by its name alone. And of any other call, whoever could end it: what the process waits
for in the kernel, whether a thread or a child of it may do something yet, and which processes hold the other
end. Where the system does not tell that, or anybody else might end it, nothing is told.
"""

import _thread
import ast
import builtins
import linecache
import re
import signal
import threading
import time
from contextlib import suppress
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

import torch

from labkit.mpi.wire.runtime import MPI, WORLD
from labkit.rank import kernel_waits
from labkit.rank.protocol import Below

TELLS_AFTER = 2.0
"""Seconds before anything is told: to find out who holds what takes a few milliseconds."""
_ANSWERS_WITHIN = 0.2
"""Seconds that MPI may take to say who has a window."""
_MARK = signal.SIGURG
"""A signal that the system ignores. It is never sent: only Python hears of it, and only when it runs."""

_marks: dict[int, bool] = {}
_since = _rests_since = 0.0
_moved: tuple[str | int, ...] = ()
_known: dict[str, Any] = {}  # of the call since then


def install() -> None:
    """Be able to look from now on. On the main thread, when all threads that serve the notebook run."""
    signal.signal(_MARK, _marks.pop)  # in C: a debugger or a profile of the cell does not see it
    kernel_waits.install()


def look(
    frames: list[FrameType], cell: FrameType | None, rests: bool, bytes_moved: tuple[str, ...]
) -> Below | None:
    """The call in which a cell's main thread has been for a while, without computing; else None.

    `frames` is its stack, innermost first, and `rests` whether the process uses next to none of a core.
    `bytes_moved` is what `kernel_waits` says of that, read before the frames were taken: while a file is read
    the main thread runs on, and frames that are held keep its tensors alive.
    """
    global _since, _rests_since, _moved
    now, lock = time.monotonic(), _file_lock(frames)
    if not rests:
        _rests_since = now
    moved = (id(lock),) if lock else bytes_moved
    came_back = _MARK not in _marks and lock is None
    if cell is None or came_back or moved != _moved:
        _since, _moved = now, moved
        if cell is not None and _MARK not in _marks and signal.getsignal(_MARK) == _marks.pop:
            _marks[_MARK] = True
            _thread.interrupt_main(_MARK)
        return None
    if now - _since < TELLS_AFTER:
        return None
    found = _in_mpi(frames[0], _since)
    if found is not None:
        return None if kernel_waits.uses_a_disk() else Below(seconds=now - _since, **found)
    if (
        now - _rests_since < TELLS_AFTER
        or torch.cuda.is_initialized()
        or kernel_waits.threads_act()
        or kernel_waits.has_children()
    ):
        return None
    if lock is not None:
        found = kernel_waits.held(lock.f_locals["self"].lock_file)
    else:
        found = kernel_waits.wait(_since)
    if found is None:
        return None
    return Below(_text(cell), now - max(_since, _rests_since), **found)


def _file_lock(frames: list[FrameType]) -> FrameType | None:
    """Where the package filelock looks again and again whether it can have a lock, with no limit of time."""
    for frame in reversed(frames):
        if frame.f_code.co_name == "acquire" and frame.f_code.co_filename.endswith("filelock/_api.py"):
            names = frame.f_locals
            if hasattr(names.get("self"), "lock_file") and names.get("timeout") in (None, -1):
                return frame
    return None


# What was called


_NOTHING = object()
"""Stands for a value that cannot be had without running code."""


def _expression(frame: FrameType) -> ast.expr | None:
    """What the frame evaluates at this moment."""
    code = frame.f_code
    if not hasattr(code, "co_positions"):  # Python 3.10: what is called first in that line
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        with suppress(SyntaxError):
            calls = (node for node in ast.walk(ast.parse(line.rstrip(":"))) if isinstance(node, ast.Call))
            return next(calls, None)
        return None
    first, last, begin, end = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    if None in (first, last, begin, end):
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    text = b"".join([lines[0][begin:], *lines[1:]]).decode(errors="replace")
    with suppress(SyntaxError, ValueError):
        return ast.parse(f"({text})", mode="eval").body
    return None


def _text(frame: FrameType) -> str:
    """The name of what a frame calls, as it is written there; of what has none, how it is written."""
    expression = _expression(frame)
    if expression is None:
        return "a call"
    return ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)


def _called(frame: FrameType) -> tuple[Any, str] | None:
    """Whose method a frame calls, as far as that can be had without running code, and its name."""
    call = _expression(frame)
    if not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Attribute):
        return _value(call.func.value, frame), call.func.attr
    function = _value(call.func, frame)
    return getattr(function, "__self__", _NOTHING), getattr(function, "__name__", "")


def _value(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        if isinstance(owner, ModuleType):
            return vars(owner).get(node.attr, _NOTHING)
        with suppress(TypeError):
            return vars(owner).get(node.attr, _NOTHING)
    if isinstance(node, ast.Subscript):
        owner, index = _value(node.value, frame), _value(node.slice, frame)
        if type(owner) in (list, tuple, dict) and type(index) in (int, str):
            with suppress(LookupError):
                return owner[index]
    return _NOTHING


# A call of MPI's

_OF_ALL = {
    "Win": r"Create|Create_dynamic|Allocate|Allocate_shared|Fence|Free",
    "File": r"Open|Close|Set_size|Preallocate|Set_view|Set_atomicity|Sync|.*_(all|ordered)(_begin|_end)?",
    "Comm": r"(?!Accept|Connect|Join|.*([Ss]end|[Rr]ecv|[Pp]robe)).*",
}
"""The methods that all ranks of a window, a file or a communicator must call. mpi4py's names."""
_ANYBODY = ("Accept", "Connect", "Join")
"""What programs outside of the lab may answer."""


def _in_mpi(frame: FrameType, since: float) -> dict[str, Any] | None:
    """What is told of a call that waits for other ranks; None if it is none of MPI's, or needs nobody."""
    if _known.get("since") != since:
        called = _called(frame)
        _known.update(since=since, call=called and _of_mpi(*called))
    return _known["call"]


def _of_mpi(owner: Any, name: str) -> dict[str, Any] | None:
    if name.startswith("MPI_"):  # a library's own, as ctypes calls it
        return {"call": name, "sure": True, "deaf": True, "collective": True}
    kind = owner if isinstance(owner, type) else type(owner)
    of = [base.__name__ for base in kind.__mro__ if base.__module__ == "mpi4py.MPI"]
    which = next((k for k in ("Win", "File", "Prequest", "Comm") if k in of), None)
    if which is None:
        return None
    collective = re.fullmatch(_OF_ALL.get(which, ""), name) is not None
    if which == "File" and not collective:
        return None
    ranks = () if owner is kind else _members(owner)
    if ranks is None:
        return None
    sure = name not in _ANYBODY or len(ranks) > 1
    shown = "Intercomm" if "Intercomm" in of else which
    told = {"call": f"{shown}.{name}", "sure": sure, "collective": collective, "peers": ranks}
    return told | {"deaf": True}


def _members(of: Any) -> tuple[int, ...] | None:
    """World ranks of all who have a window, a file or a communicator; () if that cannot be asked for.

    None if some are not of this lab, as processes that a cell has spawned.
    """
    if hasattr(of, "ranks"):  # of a watched communicator
        return tuple(of.ranks)
    if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
        return ()
    found: set[int] = set()

    def ask() -> None:
        with suppress(MPI.Exception):
            for name in ("Get_group", "Get_remote_group"):
                if hasattr(of, name):
                    group = getattr(of, name)()
                    found.update(group.Translate_ranks(None, WORLD.Get_group()))
                    group.Free()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWERS_WITHIN)  # MPICH lets no other thread in while it writes files
    return None if MPI.UNDEFINED in found else () if asking.is_alive() else tuple(sorted(found))
