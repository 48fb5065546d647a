"""How far the user's code had come when it called: the innermost frame outside torch and this machinery."""

import os
import sys
from functools import cached_property
from inspect import unwrap

import torch
import torch.distributed as dist

import labkit

# Frames in these files are machinery: the line that a user wants to see is the first one outside.
_MACHINERY = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.join(os.path.dirname(labkit.__file__), "mpi") + os.sep,
    os.path.join(os.path.dirname(labkit.__file__), "schedule") + os.sep,
    "<frozen ",
    "<string>",
)
_HELPERS = ("contextlib.py", "functools.py", "threading.py", "typing_extensions.py", "warnings.py")
# These call torch's isend and irecv, which a user may call as well.
_BY_OTHERS = {id(unwrap(verb).__code__) for verb in (dist.send, dist.recv)}
_REMEMBERED = 10_000  # places that call; each keeps its code, and a cell that runs again has other code


class Position:
    """Some code, and how far it had come. Its line is found when somebody asks, which is seldom."""

    def __init__(self, frame):
        self.code, self.at = frame.f_code, frame.f_lasti

    @cached_property
    def place(self):
        """(file, line)"""
        line = next(line for start, end, line in self.code.co_lines() if start <= self.at < end)
        return self.code.co_filename, line


def position():
    """The user's Position, or None if no user's code is beneath."""
    return _position(_user_frame(sys._getframe(1)))


def position_above(frames):
    """The same, sooner, if the user's frame is so many above this one, the two below it torch's.

    Python makes an object of each frame that somebody looks at, so the first look is at that one alone. If it
    was the user's once, it is when the same code has come as far again: the same line calls the same way.
    Where it is torch's `send`, the next look is at that one's caller, with a decorator between them.
    """
    try:
        frame = sys._getframe(frames)
    except ValueError:  # called from C++, with little of Python beneath
        return position()
    found = _direct.get((id(frame.f_code), frame.f_lasti))
    if found is None and id(frame.f_code) in _BY_OTHERS:
        caller = sys._getframe(frames + 2)
        found = _positions.get((id(caller.f_code), caller.f_lasti))
    if found is None:
        user = _user_frame(sys._getframe(frames - 2))
        found = _position(user)
        if user is frame:
            _direct[id(found.code), found.at] = found
    return found


def _user_frame(frame):
    while frame is not None and _machinery[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def _position(frame):
    if frame is None:
        return None
    key = id(frame.f_code), frame.f_lasti
    if key not in _positions:
        if len(_positions) >= _REMEMBERED:
            _positions.clear()
            _direct.clear()
        _positions[key] = Position(frame)
    return _positions[key]


_positions = {}  # (id of the code, how far it had come) -> its Position, which keeps the code and so the id
_direct = {}  # those of them that called torch's functions directly


class _Machinery(dict):
    """Whether a file is machinery."""

    def __missing__(self, file):
        self[file] = file.startswith(_MACHINERY) or file.endswith(_HELPERS)
        return self[file]


_machinery = _Machinery()
