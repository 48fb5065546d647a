"""The standard streams of a rank: whatever a cell does to them, the next one has them again.

A kernel that finds `sys.stdout` closed when it ends a cell sends no reply, and the notebook would wait for
ever. Nor would it send one that is no JSON: half a surrogate in a message, an infinite number in a display.
"""

import fcntl
import json
import os
import sys
from contextlib import suppress
from functools import cached_property
from math import isfinite
from typing import Any

from jupyter_client.jsonutil import json_default

NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_DEEPEST = 30  # of what is put into JSON by force

_CALLS = sys.getrecursionlimit()

_streams: dict[str, Any] = {}
_files: dict[int, int] = {}
"""A copy of each descriptor, by its number."""


def install(kernel: Any) -> None:
    """Put the streams back at the end of each cell and call from now on, and have every message be sent."""
    _streams.update({name: getattr(sys, name) for name in NAMES})
    copies = (getattr(_streams[name], "_original_stdstream_copy", None) for name in ("stdout", "stderr"))
    for file in (0, 1, 2, *copies):
        with suppress(OSError, TypeError):  # it may be closed, or be none
            _files[file] = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 100)
    kernel.shell.events.register("post_execute", restore)
    do_apply = kernel.do_apply

    def apply(*args: Any) -> Any:
        try:
            return do_apply(*args)
        finally:
            restore()

    kernel.do_apply, kernel.session.pack = apply, packed


def restore() -> None:
    """Make all streams those of the start. What is left in one that took their place is not ours to flush."""
    for name, stream in _streams.items():
        setattr(sys, name, stream)
        for part in [part for part in getattr(stream, "__dict__", {}) if _of_class(type(stream), part)]:
            delattr(stream, part)  # which a cell has put over that of the class, or closed
    sys.setrecursionlimit(max(_CALLS, sys.getrecursionlimit()))  # as deep as a kernel itself has to call
    for file, copy in _files.items():
        if not _is_one(file, copy):
            os.dup2(copy, file)


def _of_class(kind: type, part: str) -> bool:
    """Whether it is a method, or made when it is first asked for."""
    whole = getattr(kind, part, None)
    return callable(whole) or isinstance(whole, cached_property)


def _is_one(file: int, copy: int) -> bool:
    try:
        return os.path.sameopenfile(file, copy)
    except OSError:
        return False


def packed(content: Any) -> bytes:
    """A part of a message as JSON, whatever is in it."""
    try:
        return _json(content)
    except Exception:  # of many kinds: what is in it is the user's
        return _json(sendable(content))


def _json(content: Any) -> bytes:
    return json.dumps(content, default=json_default, ensure_ascii=False, allow_nan=False).encode()


def sendable(thing: Any, deep: int = 0) -> Any:
    """Something like it that JSON and UTF-8 have: text of whatever is neither.

    >>> sendable({"half": "\\ud83d", 1: float("nan"), "deep": {(0,): b"bytes"}})
    {'half': '\\\\ud83d', '1': 'nan', 'deep': {'(0,)': "b'bytes'"}}
    """
    if thing is None or isinstance(thing, (bool, int)):
        return thing
    if isinstance(thing, float) and isfinite(thing):
        return thing
    if isinstance(thing, dict) and deep < _DEEPEST:
        return {text_of(key): sendable(value, deep + 1) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)) and deep < _DEEPEST:
        return [sendable(value, deep + 1) for value in thing]
    return text_of(thing)


def text_of(thing: Any) -> str:
    """What `str` makes of it, as UTF-8 has it; of what raises, the name of its class."""
    try:
        text = str.__str__(thing) if isinstance(thing, str) else str(thing)
    except Exception:
        text = f"<a {type(thing).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()
