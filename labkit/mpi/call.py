"""One call of one verb: what was asked, of whom, by which line."""

import os
import sys
from types import FunctionType

import torch
import torch.distributed.distributed_c10d as c10d

# Frames in these files are machinery: the line that a user wants to see is the first one outside.
_MACHINERY = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(__file__) + os.sep,
    os.path.join(os.path.dirname(os.path.dirname(__file__)), "schedule") + os.sep,
    "<frozen ",
    "<string>",
)
_HELPERS = ("contextlib.py", "functools.py", "threading.py", "typing_extensions.py", "warnings.py")


class Call:
    """What one rank asked for. Every operation of every group has exactly one.

    `ranks` are world ranks: the members of the group for a collective, the one partner for a
    message, all others for a receive from any source. `root` is a world rank or None. `same` is what
    all ranks must agree on besides verb, dtype, operation and root: as a rule the shapes.
    """

    __slots__ = (
        "verb",
        "group",
        "ranks",
        "root",
        "tag",
        "op",
        "bytes",
        "dtype",
        "shapes",
        "same",
        "sequence",
        "place",
    )

    def __init__(self, verb, group, ranks, tensors=(), *, root=None, tag=None, op=None, same=None):
        self.verb, self.group, self.ranks = verb, group, ranks
        self.root, self.tag, self.op = root, tag, op
        self.bytes = tensors[0].nbytes if len(tensors) == 1 else sum([t.nbytes for t in tensors])
        self.dtype = tensors[0].dtype if tensors else None
        self.shapes = [t.shape for t in tensors]
        self.same = self.shapes if same is None else same
        self.sequence = None
        self.place = None

    def locate(self):
        """Find the user's (file, line) that is behind this call; works only below that line."""
        if self.place is None:
            self.place = user_line()
        return self.place

    def __str__(self):
        tensors = ", ".join(f"{dtype_name(self.dtype)}{list(shape)}" for shape in self.shapes[:4])
        if len(self.shapes) > 4:
            tensors += f", ... {len(self.shapes)} tensors"
        parts = [
            part
            for part in (
                tensors,
                self.op and f"op={self.op}",
                self.root is not None and f"root={self.root}",
                self.tag is not None and f"tag={self.tag}",
            )
            if part
        ]
        return f"{self.verb}({', '.join(parts)})"


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def user_line():
    """(file, line) of the innermost frame outside torch and this package, or (None, 0)."""
    frame = user_frame(1)
    return (None, 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def user_frame(below=0):
    """The innermost frame outside torch and this package, or None.

    `below` callers of this function's own are known to be inside. Python makes an object of each frame that
    somebody looks at, so those are passed over, as is the frame behind which torch has each of its verbs.
    """
    try:
        frame = sys._getframe(1 + below)
        if id(frame.f_code) in _wrapped:
            frame = sys._getframe(3 + below)
    except ValueError:  # called from C++, with nothing of Python beneath
        return None
    while frame is not None and _machinery[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


class _Machinery(dict):
    """Whether a file is machinery."""

    def __missing__(self, file):
        self[file] = file.startswith(_MACHINERY) or file.endswith(_HELPERS)
        return self[file]


_machinery = _Machinery()
_verbs = [f for f in vars(c10d).values() if type(f) is FunctionType and hasattr(f, "__wrapped__")]
_wrapped = {id(verb.__wrapped__.__code__) for verb in _verbs}
