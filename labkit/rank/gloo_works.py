"""What gloo has under way, and for which nobody waits.

A message of gloo's says that it is complete only once it was waited for, and a wait that comes to its
deadline closes the connection. So all are waited for at once, and where one fails the group is made anew.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist

from labkit.mpi.call import Call
from labkit.mpi.record.position import Position, position_above
from labkit.rank import other_backends

_PATIENCE = 1.0  # seconds for what all ranks have called
_CROWD = 100  # from so many on, those that are complete are let go of
_AT_ONCE = 64  # threads
_NEVER = {"send": "nobody received it", "recv": "nothing was sent", "recv_anysource": "nothing was sent"}

_open: list[tuple[dist.Work, str, dist.ProcessGroup, tuple, Position | None, int]] = []
_waited_for: dict[int, dist.Work] = {}  # by the thread that waits
_MAIN = threading.main_thread().ident


def watch() -> None:
    """Remember from now on what is asynchronous, with its tensors, which must live until it has ended."""
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
        work = method(group, *args, **kwargs)
        options = args[-1] if args else kwargs.get("opts")
        beside = threading.get_ident() != _MAIN  # the cell does not wait for its end
        if work is not None and (message or beside or getattr(options, "asyncOp", False)):
            if len(_open) > _CROWD:
                _open[:] = [entry for entry in _open if not entry[0].is_completed()]
            where = position_above("remembered", "torch's function", "its decorator")
            _open.append((work, name, group, args, where, 0 if message else number_of(group)))
        return work

    return remembered


def number_of(group: dist.ProcessGroup) -> int:
    """How many collectives of the group this rank has called."""
    return group._get_backend(group._device_types[0])._get_sequence_number_for_group()


def _noted(method: Callable) -> Callable:
    @wraps(method)
    def wait(work: dist.Work, *args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        _waited_for[thread] = work
        try:
            return method(work, *args, **kwargs)
        finally:
            _waited_for.pop(thread, None)

    return wait


def waiting(thread: int | None) -> tuple[Call, int] | None:
    """The asynchronous call for which that thread waits, and its number among the group's collectives."""
    work = _waited_for.get(thread)
    for entry, name, group, args, _, number in _open.copy():
        if entry is work:
            return other_backends.call_of(name, group, *args), number
    return None


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
    told = []
    for (_, name, group, args, where, _), fate, waited in zip(entries, fates, held, strict=True):
        call = other_backends.call_of(name, group, *args)
        call.where = where
        told.append((call, fate, waited))
    return told


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
