"""The notebook as a rank's keyboard: for pdb, in whichever way a cell stops in it, and for `input`.

The cell's thread stops here and waits for a line. The control thread, which answers beside it, tells that
it has stopped and what pdb has said, and brings what was typed.
"""

import dis
import inspect
import io
import pdb
import queue
import sys
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

import torch.distributed as dist
from IPython import get_ipython
from IPython.core import debugger as of_ipython

from labkit import LabError
from labkit.rank import cells
from labkit.rank.cells import in_cell
from labkit.rank.protocol import Stop
from labkit.rank.tracebacks import around, of_a_library

UNHEARD = 10.0
"""Seconds after which a rank goes on whose stop nobody has looked at: nobody follows what it runs."""

_commands: queue.SimpleQueue[str | None] = queue.SimpleQueue()
_stop: Stop | None = None
"""Where a thread waits for a line, if one does."""
_told = False
"""Whether anybody knows of this stop."""
_asks = threading.RLock()
_after_errors = False
"""Whether an error of a cell is looked at where it was raised."""
_asked = 0
"""How often a line was waited for; so the notebook knows which answer belongs to which."""


class NobodyTypes(LabError, EOFError):
    """What programs expect where there is no keyboard, and a sentence."""


def install(kernel: Any) -> None:
    """Let `breakpoint()`, `input()` and what else stops for a keyboard stop this rank."""
    sys.breakpointhook = breakpoint
    pdb.Pdb, pdb.set_trace, pdb.pm = Debugger, set_trace, pm  # type: ignore[misc, assignment]
    of_ipython.set_trace = set_trace
    dist.breakpoint = breakpoint_of_one
    kernel.shell.debugger = lambda force=False: pm()
    kernel.raw_input, kernel.getpass = ask, ask_secretly


def stop() -> Stop | None:
    """Where this rank has stopped, and what pdb has said since it was told to do something."""
    return _stop


def told() -> Stop | None:
    """The same, for somebody who will answer."""
    global _told
    _told = True
    return _stop


def command(text: str | None) -> None:
    """Type that line, as soon as it is asked for; None if nobody can type."""
    _commands.put(None if text is None else f"{text}\n")


def _typed(place: str, said: str = "", asks: str | None = None, secret: bool = False) -> str | None:
    """The next line that somebody types; None if nobody can."""
    global _stop, _asked, _told
    with _asks:
        _asked, _told = _asked + 1, False
        _stop = Stop(_asked, place, said, asks, secret)
        try:
            return _commands.get(timeout=UNHEARD)
        except queue.Empty:
            return _commands.get() if _told else None
        finally:
            _stop = None


def ask(prompt: object = "", *, secret: bool = False, call: str = "input") -> str:
    """What somebody answers in the notebook; what `input` is on a rank."""
    _forget_late()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not in_cell(frame):
        frame = frame.f_back
    place = cells.place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""
    line = _typed(place, asks=str(prompt), secret=secret)
    if line is None:
        raise NobodyTypes(f"{call}() on a rank", "nobody can type here", "set the value in the cell")
    return line.removesuffix("\n")


def ask_secretly(prompt: str = "Password: ", stream: object = None, **options: object) -> str:
    """The same of `getpass.getpass`."""
    return ask(prompt, secret=True, call="getpass")


def _forget_late() -> None:
    """Of what was typed for a stop that an interrupt had ended."""
    while not _commands.empty():
        _commands.get()


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


def breakpoint(*args: Any, **kwargs: Any) -> None:
    """Stop at that call."""
    Debugger().set_trace(sys._getframe(1))


def set_trace(frame: FrameType | None = None, *args: Any, header: str | None = None, **options: Any) -> None:
    """Stop at that call: `pdb.set_trace`, and IPython's, which takes a frame."""
    debugger = Debugger()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(frame or sys._getframe(1))


def breakpoint_of_one(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stop at that call on one rank, for which the others wait: `dist.breakpoint`.

    It does nothing at the first `skip` calls of its line.
    """
    frame = sys._getframe(1)
    line = frame.f_code, frame.f_lineno
    _skipped[line] = _skipped.get(line, 0) + 1
    if _skipped[line] <= skip:
        return
    if dist.get_rank() == rank:
        Debugger().set_trace(frame)
    dist.barrier()


_skipped: dict[tuple[Any, int], int] = {}


def pm() -> None:
    """Look at the error of the cell before: `pdb.pm`, and IPython's `%debug`."""
    last = getattr(get_ipython(), "last_execution_result", None)
    error = last.error_in_exec if last is not None else None
    if not isinstance(error, BaseException) or error.__traceback__ is None:
        found = "the cell before has raised none"
        raise LabError("pdb at the last error", found, "run the failing cell, or add --pdb to its %%px")
    pdb.post_mortem(_down_to_a_cell(error.__traceback__) or error.__traceback__)


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

    def __init__(self, *args: Any, **options: Any) -> None:
        _forget_late()
        self._said = io.StringIO()
        super().__init__(stdin=self, stdout=self._said, nosigint=True, readrc=False)  # type: ignore[arg-type]
        self.prompt = ""

    def set_trace(self, frame: FrameType | None = None, **options: Any) -> None:
        """Stop at that call, in every Python: up to 3.12 pdb would stop at the next line, if there is one."""
        frame = frame or sys._getframe(1)
        super().set_trace(frame)
        sys.settrace(None)  # pdb itself is not traced
        self.set_step()
        self.interaction(frame, None)
        if not self.goes_on():
            sys.settrace(self.trace_dispatch)

    def readline(self) -> str:
        """The next command: pdb reads this object as its input."""
        frame, line = self.stack[self.curindex]
        said = self._said.getvalue()
        self._said.seek(0)
        self._said.truncate()
        return _typed(cells.place(frame.f_code.co_filename, line), said) or "continue\n"

    def print_stack_entry(self, frame_lineno: tuple[FrameType, int], prompt_prefix: str = "") -> None:
        """Where it stands, with the lines around, as in an error's traceback."""
        frame, line = frame_lineno
        file = frame.f_code.co_filename
        self.message("\n".join([cells.place(file, line), *around(file, line)]).rstrip())

    def goes_on(self) -> bool:
        """Whether it was told to stop nowhere any more."""
        return self.stoplineno == -1 and self.stopframe is self.botframe and not self.breaks

    def stop_here(self, frame: FrameType) -> bool:
        """In code of cells and of the learner's files, not in libraries."""
        return bool(super().stop_here(frame)) and (in_cell(frame) or not of_a_library(frame))

    def set_return(self, frame: FrameType) -> None:
        """Stop where the caller goes on; pdb's own loses a coroutine there."""
        caller = frame.f_back
        if caller is not None and inspect.CO_COROUTINE & frame.f_code.co_flags:
            self.set_next(caller) if in_cell(caller) else self.set_step()
        else:
            super().set_return(frame)

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Go on to the next line of whoever awaits; pdb's own takes each end of a coroutine for an await."""
        if frame is self.stopframe and inspect.CO_COROUTINE & frame.f_code.co_flags:
            if dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
                self.set_step()
        return super().dispatch_return(frame, arg)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """In the learner's code: libraries raise and catch much."""
        if in_cell(frame) or not of_a_library(frame):
            super().user_exception(frame, exc_info)

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
