"""The number that stands beside a cell, counted along: a front end may keep no history, as nbval does."""

import sys
from types import FrameType
from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

_counts: WeakKeyDictionary[InteractiveShell, "_Count"] = WeakKeyDictionary()


class _Count:
    def __init__(self, shell: InteractiveShell) -> None:
        before = len(shell.history_manager.input_hist_raw) - 1 if shell.history_manager else 0
        self.number = max(1, before) if _in_a_cell() else before
        shell.events.register("pre_run_cell", self.next)

    def next(self, info: ExecutionInfo) -> None:
        self.number += 1


def count(shell: InteractiveShell) -> None:
    """Count this shell's cells from now on. What ran before is known by its history, if there is one."""
    if shell not in _counts:
        _counts[shell] = _Count(shell)


def number(shell: InteractiveShell) -> int:
    """The number of the cell that runs."""
    count(shell)
    return max(1, _counts[shell].number)


def _in_a_cell() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not InteractiveShell.run_code.__code__:
        frame = frame.f_back
    return frame is not None
