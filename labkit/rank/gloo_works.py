"""What gloo has under way, and for which nobody waits.

A message of gloo's says that it is complete only once it was waited for, and a wait that comes to its
deadline closes the connection. So all are waited for at once, and where one fails the group is made anew.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist

from labkit.mpi import torch_internals
from labkit.mpi.call import Call
from labkit.mpi.hazards.watch import calls_asynchronously
from labkit.mpi.record.history import remember
from labkit.mpi.record.position import is_machinery, position_above
from labkit.rank import other_backends

_PATIENCE = 1.0  # seconds for what all ranks have called
_CROWD = 100  # from so many on, those that are complete are let go of
_AT_ONCE = 64  # threads
_NEVER = {"send": "nobody received it", "recv": "nothing was sent", "recv_anysource": "nothing was sent"}

# Those with their arguments, which must live until they have ended.
_open: list[tuple[dist.Work, str, tuple, Call]] = []
_last: tuple[dist.Work | None, Call | None] = None, None
_waited_for: dict[int, dist.Work] = {}  # by the thread that waits
_MAIN = threading.main_thread().ident


def watch() -> None:
    """Remember from now on what is called, and what is asynchronous until it has ended."""
    if dist.get_backend() == "mpi":
        return
    for name in (*other_backends.VERBS, *other_backends.MESSAGES):
        method = vars(dist.ProcessGroup).get(name)
        if method is not None:
            setattr(dist.ProcessGroup, name, _remembered(name, method))
    dist.Work.wait = _noted(dist.Work.wait)


def _remembered(name: str, method: Callable) -> Callable:
    message = name in other_backends.MESSAGES

    @wraps(method)
    def remembered(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        global _last
        call = other_backends.call_of(name, group, *args, **kwargs)
        work = method(group, *args, **kwargs)
        call.where = position_above("remembered", "torch's function", "its decorator")
        call.sequence = None if message else number_of(group)
        _last = work, call
        caller = calls_asynchronously(sys._getframe(1))
        call.by_torch = caller is not None and is_machinery(caller)
        remember(call)
        options = args[-1] if args else kwargs.get("opts")
        beside = threading.get_ident() != _MAIN  # the cell does not wait for its end
        if work is not None and (message or beside or getattr(options, "asyncOp", False)):
            if len(_open) > _CROWD:
                _open[:] = [entry for entry in _open if not entry[0].is_completed()]
            _open.append((work, name, args, call))
        return work

    return remembered


def number_of(group: dist.ProcessGroup) -> int:
    """How many collectives of the group this rank has called."""
    return torch_internals.backend_in(group)._get_sequence_number_for_group()


def _noted(method: Callable) -> Callable:
    @wraps(method)
    def wait(work: dist.Work, *args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        _waited_for[thread] = work
        call = _last[1] if _last[0] is work else waiting(thread)
        if call is not None:
            remember(call)
        try:
            done = method(work, *args, **kwargs)
            if call is not None:
                call.source = other_backends.source(call, work)
            return done
        finally:
            _waited_for.pop(thread, None)

    return wait


def waiting(thread: int | None) -> Call | None:
    """The asynchronous call for which that thread waits."""
    work = _waited_for.get(thread)
    return next((call for entry, _, _, call in _open.copy() if entry is work), None)


def pending() -> bool:
    """Whether there is any that may not have ended."""
    _open[:] = [entry for entry in _open if not entry[0].is_completed()]
    return bool(_open)


def settled() -> list[tuple[Call, str, bool]]:
    """Wait for what has not ended, on all ranks together.

    Each call, why it cannot end, or "", and whether a thread that the cell has left waited for it.
    """
    pending()
    entries = list(_open)
    _open.clear()
    if not entries:
        return []
    held = [_is_held(work) for work, *_ in entries]
    with ThreadPoolExecutor(min(len(entries), _AT_ONCE)) as threads:
        fates = list(threads.map(_fate, entries))
    return [(call, fate, waited) for (*_, call), fate, waited in zip(entries, fates, held, strict=True)]


def _fate(entry: tuple) -> str:
    work, name, *_ = entry
    held = _is_held(work)  # then not by two: each would take the message from the other
    deadline = time.monotonic() + _PATIENCE
    try:
        if name in other_backends.MESSAGES and not held:
            work.wait(timedelta(seconds=_PATIENCE))
            return ""
        while _is_held(work) if held else not work.is_completed():
            if time.monotonic() > deadline:
                return _NEVER.get(name, "not every rank called it")
            time.sleep(0.01)
    except RuntimeError:
        return _NEVER.get(name, "it failed")
    return ""


def _is_held(work: dist.Work) -> bool:
    """Whether a thread waits for it."""
    return any(work is other for other in list(_waited_for.values()))
