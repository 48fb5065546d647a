"""The last calls of this process, always kept: a cell that went wrong is looked back through by them.

A call is there once when it is entered, and again when its caller begins to wait for it; of mpi4py's calls
only those that do not block. Nothing else is noted, above all no time: what can have happened in which order
follows from who waits for whom. It costs one `append` (`make bench`).
"""

from __future__ import annotations

from collections import deque
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from labkit.mpi.call import Call

Passed: TypeAlias = tuple[Any, str, int | None, int, CodeType, int]
"""A call of mpi4py's that was over at once: communicator, verb, of a message its partner and tag, of a
collective None and its number; and how far the code was."""

LENGTH = 256
"""Operations that are kept at least."""

calls: deque[Call | Passed] = deque(maxlen=2 * LENGTH)
"""Each call as it was entered or waited for, in order."""

remember = calls.append


def forget() -> None:
    """A new cell begins: it has its own history."""
    calls.clear()
