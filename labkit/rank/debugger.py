"""`breakpoint()` in a cell: pdb on a rank, with the notebook as its keyboard.

The cell's thread stops here and waits for a command. The control thread, which answers beside it, tells that
it has stopped and what pdb has said, and brings the commands.
"""

import io
import pdb
import queue
import sys
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from labkit.rank import cells
from labkit.rank.cells import in_cell
from labkit.rank.protocol import Stop
from labkit.rank.tracebacks import around, of_a_library

_commands: queue.SimpleQueue[str] = queue.SimpleQueue()
_stop: Stop | None = None
"""Where the cell's thread waits for a command, if it does."""
_after_errors = False
"""Whether an error of a cell is looked at where it was raised."""
_asked = 0
"""How often a command was waited for; so the notebook knows which answer belongs to which."""


def install() -> None:
    """Let `breakpoint()` stop this rank."""
    sys.breakpointhook = _breakpoint


def stop() -> Stop | None:
    """Where this rank has stopped, and what pdb has said since it was told to do something."""
    return _stop


def command(text: str) -> None:
    """Tell pdb to do it, as soon as it asks."""
    _commands.put(f"{text}\n")


def post_mortem(wanted: bool) -> None:
    """From now on, stop where a cell raises an error, or do not."""
    global _after_errors
    _after_errors = wanted


def look_at(error: BaseException, trace: TracebackType) -> None:
    """Stop where an error of a cell was raised, if that is wanted."""
    if _after_errors and isinstance(error, Exception):
        debugger = Debugger()
        debugger.reset()
        with suppress(KeyboardInterrupt):  # the cell is over anyway
            debugger.interaction(None, _down_to_a_cell(trace) or trace)


def _breakpoint(*args: Any, **kwargs: Any) -> None:
    """Stop at that call, in every Python: up to 3.12 pdb would stop at the next line, if there is one."""
    debugger, frame = Debugger(), sys._getframe(1)
    debugger.set_trace(frame)
    sys.settrace(None)  # pdb itself is not traced
    debugger.set_step()
    debugger.interaction(frame, None)
    if not debugger.goes_on():
        sys.settrace(debugger.trace_dispatch)


def _down_to_a_cell(trace: TracebackType | None) -> TracebackType | None:
    """A traceback that ends in the innermost line of a cell: nobody wants to begin in a library."""
    if trace is None:
        return None
    inner = _down_to_a_cell(trace.tb_next)
    if inner is None and not in_cell(trace.tb_frame):
        return None
    return TracebackType(inner, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


class Debugger(pdb.Pdb):
    """pdb, but that its place is a cell's, and that an interrupt ends the cell."""

    def __init__(self) -> None:
        while not _commands.empty():  # what was told to a stop that an interrupt had ended
            _commands.get()
        self._said = io.StringIO()
        super().__init__(stdin=self, stdout=self._said, nosigint=True, readrc=False)  # type: ignore[arg-type]
        self.prompt = ""

    def readline(self) -> str:
        """The next command: pdb reads this object as its input."""
        global _stop, _asked
        frame, line = self.stack[self.curindex]
        said = self._said.getvalue()
        self._said.seek(0)
        self._said.truncate()
        _asked += 1
        _stop = Stop(_asked, cells.place(frame.f_code.co_filename, line), said)
        try:
            return _commands.get()
        finally:
            _stop = None

    def print_stack_entry(self, frame_lineno: tuple[FrameType, int], prompt_prefix: str = "") -> None:
        """Where it stands, with the lines around, as in an error's traceback."""
        frame, line = frame_lineno
        file = frame.f_code.co_filename
        self.message("\n".join([cells.place(file, line), *around(file, line)]).rstrip())

    def goes_on(self) -> bool:
        """Whether it was told to stop nowhere any more."""
        return self.stoplineno == -1 and not self.breaks

    def stop_here(self, frame: FrameType) -> bool:
        """In code of cells and of the learner's files, not in libraries."""
        return bool(super().stop_here(frame)) and (in_cell(frame) or not of_a_library(frame))

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """IPython calls each statement of a cell: its line is told anyway."""
        if frame.f_code.co_name != "<module>":
            super().user_call(frame, argument_list)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        if frame.f_code.co_name != "<module>":
            super().user_return(frame, return_value)

    def get_stack(
        self, frame: FrameType | None, trace: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """From the cell on, without what calls it."""
        stack, at = super().get_stack(frame, trace)
        first = next((n for n, (f, _) in enumerate(stack) if in_cell(f)), 0)
        return stack[first:], max(0, at - first)

    def _cmdloop(self) -> None:
        self.cmdloop()  # pdb's own swallows interrupts

    def do_quit(self, arg: str) -> bool | None:
        """End the cell on this rank."""
        self.clear_all_breaks()
        self.set_continue()
        raise KeyboardInterrupt

    do_q = do_exit = do_quit
