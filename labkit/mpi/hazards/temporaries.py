"""Checked mode: a result that went into a copy which nobody keeps, as in `dist.all_reduce(x.contiguous())`.

Sure is only what is seen to go: the tensor is let go of while the line that called still stands at its call,
and nothing else has its memory. So a view, a copy with a name, or an `x.contiguous()` that is x itself, is
none. And only what is made of a tensor with a name is reported: `all_reduce(torch.zeros(1))` is a barrier.
"""

from __future__ import annotations

import ast
import linecache
import sys
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_iter

from labkit.mpi.record.position import is_machinery
from labkit.mpi.torch_internals import users

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.record.position import Position

_WRITTEN = ("tensor", "output", "output_tensor")
"""How torch's verbs name the tensor that they write."""
_MOST = 20  # that are told of

_watched: set[_Watched] = set()
_lost: dict[tuple[CodeType, int], tuple[Call, str]] = {}


def watch(call: Call, results: Sequence[Any]) -> None:
    """Look whether somebody keeps what the user's call, which is waited for at once, writes."""
    if call.where is not None and (text := _copy_at(call.where, call.verb)):
        for tensor in tree_iter(results):
            if type(tensor) is torch.Tensor and tensor.is_cpu and tensor.untyped_storage().resizable():
                _watched.add(_Watched(call, text, tensor))


def lost() -> list[tuple[Call, str]]:
    """The calls whose results nobody keeps, each line once, and the copy that each wrote to."""
    told = list(_lost.values())[:_MOST]
    _lost.clear()
    return told


class _Watched:
    """A tensor that a call writes, until it is let go of."""

    def __init__(self, call: Call, text: str, tensor: torch.Tensor) -> None:
        self.call, self.text, self.memory = call, text, tensor.untyped_storage()
        self.ref = weakref.ref(tensor, self._gone)

    def _gone(self, _: object) -> None:
        _watched.discard(self)
        where, frame = self.call.where, _user_frame(sys._getframe(1))
        at_the_call = frame is not None and (frame.f_code, frame.f_lasti) == (where.code, where.at)
        if at_the_call and not self.call.failed and users(self.memory) <= _users_of_one_that_goes():
            _lost[where.code, where.at] = self.call, self.text


@cache
def _users_of_one_that_goes() -> int:
    """How many torch counts for a tensor's memory while the last that had it goes, and somebody looks."""
    seen = []
    tensor = torch.empty(0)  # of no bytes: an exercise may count them
    memory = tensor.untyped_storage()
    ref = weakref.ref(tensor, lambda _: seen.append(users(memory)))
    del tensor
    return seen[0] if ref() is None and seen else 0


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and is_machinery(frame):
        frame = frame.f_back
    return frame


def _copy_at(where: Position, verb: str) -> str:
    """What the call of that verb there writes to, in the user's words, if it may be a copy of a tensor."""
    if where not in _copies:
        if len(_copies) > 10_000:
            _copies.clear()
        _copies[where] = _find_copy(where, verb)
    return _copies[where]


_copies: dict[Position, str] = {}  # not by its code, whose hash is that of all its instructions


def _find_copy(where: Position, verb: str) -> str:
    frame = _user_frame(sys._getframe(1))
    file, line = where.place
    calls = [call for call in _calls("".join(linecache.getlines(file)), verb) if _is_at(call, where, line)]
    if len(calls) != 1 or frame is None or frame.f_code is not where.code:
        return ""
    call = calls[0]
    named = [keyword.value for keyword in call.keywords if keyword.arg in _WRITTEN]
    written = (call.args or named or [None])[0]
    if not isinstance(written, (ast.Call, ast.Subscript, ast.BinOp, ast.UnaryOp)):
        return ""
    root = _root(written)
    names = {**frame.f_globals, **frame.f_locals}
    if root is None or not isinstance(_value(root, names), torch.Tensor):
        return ""
    return ast.unparse(written)


def _calls(source: str, verb: str) -> Iterator[ast.Call]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with magics
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and verb == getattr(node.func, "attr", getattr(node.func, "id", "")):
            yield node


def _is_at(call: ast.Call, where: Position, line: int) -> bool:
    if sys.version_info < (3, 11):
        return call.lineno <= line <= (call.end_lineno or line)
    begin, end, column, last = list(where.code.co_positions())[where.at // 2]
    return (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset) == (begin, end, column, last)


def _root(written: ast.expr) -> ast.expr | None:
    """The name, or attribute of one, of which an expression makes a tensor: `x.grad` of `x.grad.clone()`."""
    match written:
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            return _root(inner)
        case ast.BinOp(left=left, right=right):
            return _root(left) or _root(right)
        case ast.UnaryOp(operand=inner):
            return _root(inner)
        case ast.Name() | ast.Attribute():
            return written
    return None


def _value(root: ast.expr, names: dict[str, object]) -> object:
    """What a name or its attribute is; nothing is computed but what a tensor or module keeps."""
    if isinstance(root, ast.Name):
        return names.get(root.id)
    if isinstance(root, ast.Attribute):
        inner = _value(root.value, names)
        if isinstance(inner, (torch.Tensor, torch.nn.Module)):
            return getattr(inner, root.attr, None)
    return None
