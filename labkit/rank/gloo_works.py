"""What gloo has under way, and for which nobody waits.

A message of gloo's says that it is complete only once it was waited for, and a wait that comes to its
deadline closes the connection. So all are waited for at once, and where one fails the group is made anew.
"""

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

_open: list[tuple[dist.Work, str, dist.ProcessGroup, tuple, Position | None]] = []


def watch() -> None:
    """Remember from now on what is asynchronous, with its tensors, which must live until it has ended."""
    if dist.get_backend() == "mpi":
        return
    for name in (*other_backends.VERBS, *other_backends.MESSAGES):
        method = vars(dist.ProcessGroup).get(name)
        if method is not None:
            setattr(dist.ProcessGroup, name, _remembered(name, method))


def _remembered(name: str, method: Callable) -> Callable:
    message = name in other_backends.MESSAGES

    @wraps(method)
    def remembered(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        work = method(group, *args, **kwargs)
        options = args[-1] if args else kwargs.get("opts")
        if work is not None and (message or getattr(options, "asyncOp", False)):
            if len(_open) > _CROWD:
                _open[:] = [entry for entry in _open if not entry[0].is_completed()]
            where = position_above("remembered", "torch's function", "its decorator")
            _open.append((work, name, group, args, where))
        return work

    return remembered


def pending() -> bool:
    """Whether there is any that may not have ended."""
    _open[:] = [entry for entry in _open if not entry[0].is_completed()]
    return bool(_open)


def settled() -> list[tuple[Call, str]]:
    """Wait for what has not ended, on all ranks together: each call, and why it cannot end, or ""."""
    pending()
    entries = list(_open)
    _open.clear()
    if not entries:
        return []
    with ThreadPoolExecutor(min(len(entries), _AT_ONCE)) as threads:
        fates = list(threads.map(_fate, entries))
    calls = []
    for _, name, group, args, where in entries:
        call = other_backends.call_of(name, group, *args)
        call.where = where
        calls.append(call)
    return list(zip(calls, fates, strict=True))


def _fate(entry: tuple) -> str:
    work, name, *_ = entry
    try:
        if name in other_backends.MESSAGES:
            work.wait(timedelta(seconds=_PATIENCE))
            return ""
        deadline = time.monotonic() + _PATIENCE
        while not work.is_completed():
            if time.monotonic() > deadline:
                return "not every rank called it"
            time.sleep(0.01)
    except RuntimeError:
        return "nobody received it" if name == "send" else "nothing was sent"
    return ""
