"""How far the user's code had come when it called: the innermost frame outside torch and this machinery."""

import os
import sys
import threading
from functools import cached_property, wraps
from types import CodeType, FrameType
from typing import Protocol

import torch

import labkit

OWN = os.path.join(os.path.dirname(labkit.__file__), "mpi") + os.sep
"""Where the files of this backend are."""
# Frames in these files are machinery: the line that a user wants to see is the first one outside.
_MACHINERY = (
    os.path.dirname(torch.__file__) + os.sep,
    OWN,
    os.path.join(os.path.dirname(labkit.__file__), "rank") + os.sep,
    os.path.join(os.path.dirname(labkit.__file__), "schedule") + os.sep,
    os.path.join(os.path.dirname(labkit.__file__), "exercises", "requests.py"),
    "<frozen ",
    "<string>",
)
_HELPERS = (
    "contextlib.py", "functools.py", "threading.py", "typing_extensions.py", "warnings.py",
    os.path.join("concurrent", "futures", "thread.py"),
)  # fmt: skip
_REMEMBERED = 10_000  # places that call; each keeps its code, and a cell that runs again has other code


class FrameLike(Protocol):
    """What is read of a frame."""

    @property
    def f_code(self) -> CodeType: ...

    @property
    def f_lasti(self) -> int: ...


class Position:
    """Some code, and how far it had come. Its line is found when somebody asks, which is seldom."""

    def __init__(self, frame: FrameLike) -> None:
        self.code, self.at = frame.f_code, frame.f_lasti

    @cached_property
    def place(self) -> tuple[str, int]:
        """(file, line)"""
        line = next(line for start, end, line in self.code.co_lines() if start <= self.at < end)
        return self.code.co_filename, line


def position() -> Position | None:
    """The user's Position, or None if no user's code is beneath."""
    return _position(_user_frame(sys._getframe(1)))


def position_above(*beneath: str) -> Position | None:
    """The same, sooner, where the user's frame is above those that are named, from the caller's own upwards.

    Python makes an object of each frame that somebody looks at, so those are not looked at again: if the
    first frame above them that is not machinery was the user's once, it is when the same code has come as far
    again, for the same line calls the same way.
    """
    nearest = len(beneath) + 1
    try:
        frame = sys._getframe(nearest)
    except ValueError:  # called from C++, with little of Python beneath
        return position()
    while (found := _direct.get((id(frame.f_code), frame.f_lasti))) is None:
        if not _machinery[frame.f_code.co_filename] or frame.f_back is None:
            break
        frame = frame.f_back
    if found is None:
        user = _user_frame(sys._getframe(nearest - 2))  # a user may call a group's own method
        found = _position(user)
        if user is frame:
            _direct[id(found.code), found.at] = found
    return found


_STARTED = "labkit_started_at"


def remember_where_threads_start() -> None:
    """Keep with each thread of this process the user's line that starts it."""
    start = threading.Thread.start
    if hasattr(start, "__wrapped__"):
        return

    @wraps(start)
    def remembered(thread: threading.Thread) -> None:
        vars(thread)[_STARTED] = position()
        start(thread)

    threading.Thread.start = remembered  # type: ignore[method-assign, assignment]


def is_machinery(frame: FrameType) -> bool:
    """Whether a frame is torch's, or of what is beneath the user's code."""
    return _machinery[frame.f_code.co_filename]


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _machinery[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def _position(frame: FrameType | None) -> Position | None:
    if frame is None:  # a thread of torch's has the line that started it
        return vars(threading.current_thread()).get(_STARTED)
    key = id(frame.f_code), frame.f_lasti
    if key not in _positions:
        if len(_positions) >= _REMEMBERED:
            _positions.clear()
            _direct.clear()
        _positions[key] = Position(frame)
    return _positions[key]


# Each under the id of its code, which it keeps and so the id, and how far that had come.
_positions: dict[tuple[int, int], Position] = {}
_direct: dict[tuple[int, int], Position] = {}  # those that were not among the frames that a caller had named


class _Machinery(dict[str, bool]):
    """Whether a file is machinery."""

    def __missing__(self, file: str) -> bool:
        self[file] = file.startswith(_MACHINERY) or file.endswith(_HELPERS)
        return self[file]


_machinery = _Machinery()
