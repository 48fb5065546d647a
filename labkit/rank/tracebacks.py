"""A rank's traceback, short: the lines of the cell and of the learner's own files, then the error.

IPython's own reads and parses every library file on the way, which takes seconds for torch's, and
shows a learner twenty frames of machinery.
"""

import bdb
import builtins
import linecache
import re
import sys
import sysconfig
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell

import labkit
from labkit import LabError
from labkit.rank import cells, streams
from labkit.rank.cells import in_cell
from labkit.rank.wording import LONG_MESSAGE, THE_CELL, cell_of, cut, in_the_cell

_LIBRARIES = tuple(
    str(path)
    for path in (Path(torch.__file__).parents[1], sysconfig.get_path("stdlib"), Path(labkit.__file__).parent)
)
CONTEXT = 2  # lines of a cell above and below
ENDS = 3  # calls that are shown of many, the outermost and the innermost
_NAME = re.compile(r"^([A-Za-z_][\w.]*)(?=:|$)", re.MULTILINE)  # of the error, in what Python says of it
_GREEN, _RED = "\x1b[32m{}\x1b[39m", "\x1b[31m{}\x1b[39m"


def _of_threads(
    report: Callable[[threading.ExceptHookArgs], object],
) -> Callable[[threading.ExceptHookArgs], object]:
    """Report an error that ends a thread; of a LabError its words, and no frames of libraries."""

    def hook(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        if not isinstance(error, LabError):
            report(args)
            return
        name = args.thread.name if args.thread else "without a name"
        said = f"{type(error).__name__}\nfound: {error.found}\nfix:   {error.fix}"
        print(f"Exception in thread {name}: {said}", file=sys.stderr)

    return hook


def install(shell: InteractiveShell, then: Callable[[BaseException, TracebackType], None]) -> None:
    """Use the short traceback for every error of a cell; `then` looks at it.

    An error is one of the cell, too, if it was only shown: that of a `__repr__`, of a script under `%run`.
    """
    shown_last: list[BaseException] = []

    def _show(
        shell: InteractiveShell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType,
        tb_offset: int | None = None,
    ) -> list[str]:
        lines = short(kind, error, trace)
        streams.restore()
        shown_last.append(error)
        shell._showtraceback(kind, spoken(error), lines)
        then(error, trace)
        return lines

    def _end(result: Any) -> None:
        """Let ipykernel tell the error of a cell, whatever it is."""
        if result.error_before_exec is None and (
            error := result.error_in_exec or next(iter(shown_last), None)
        ):
            result.error_in_exec = spoken(error)
        shown_last.clear()

    shell.set_custom_exc((BaseException,), _show)
    threading.excepthook = _of_threads(threading.excepthook)
    shell.events.register("pre_run_cell", lambda info: shown_last.clear())
    shell.events.register("post_run_cell", _end)
    shell.InteractiveTB.set_mode("Minimal")
    # IPython formats each error once more, for a history: what its `__str__` raises, the cell would raise.
    vars(shell)["_format_exception_for_storage"] = lambda error, *_, **__: {"ename": type(error).__name__}
    shown, run_code, runs = shell.showtraceback, shell.run_code, 0

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        """Also of a `__repr__`, and of sys.exit unless all is well, of which IPython leaves out the line."""
        kind, error, trace = exc_tuple or sys.exc_info()
        if runs and isinstance(error, SystemExit) and not error.code:  # a call has nobody to catch the other
            raise _Ended
        if kind is not None and error is not None and trace is not None:
            _show(shell, kind, error, trace)
        else:
            shown(exc_tuple, *args, **options)

    async def run(code: CodeType, result: Any = None, *, async_: bool = False) -> bool:
        nonlocal runs
        runs += 1
        try:
            failed = await run_code(code, result, async_=async_)
        except _Ended:
            if result is not None:
                result.error_in_exec = None
            return True  # what stands below is not run
        finally:
            runs -= 1
        if result is not None and isinstance(error := result.error_in_exec, bdb.BdbQuit):
            trace = error.__traceback__  # IPython says nothing of a debugger that was quit
            result.error_in_exec = KeyboardInterrupt().with_traceback(trace)
            _show(shell, KeyboardInterrupt, result.error_in_exec, trace)
        return bool(failed)

    shell.showtraceback, shell.run_code = showtraceback, run  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", "To exit: use", UserWarning)  # which is no advice on a rank


class _Ended(BaseException):
    """A cell has left in good order, as scripts do: by sys.exit(), or by exit()."""


def short(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> list[str]:
    """The lines of a traceback, coloured as IPython's are."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(trace)]
    own = [(frame, line) for frame, line in frames if in_cell(frame) or not of_a_library(frame)]
    told, skipped, between = [], len(frames) - len(own), len(own) - 2 * ENDS
    for number, (frame, line) in enumerate(own):
        if between > 0 and ENDS <= number < ENDS + between:  # of a recursion
            told += [f"... {between:,} calls in between", ""] if number == ENDS else []
            continue
        file = frame.f_code.co_filename
        if in_cell(frame):
            cell = "" if cells.name(file) == THE_CELL else f" {cells.name(file)}"
            told += [_GREEN.format(f"Cell{cell}, line {line}"), *around(file, line)]
        else:
            told += [_GREEN.format(f"File {file}, line {line}"), *around(file, line)]
    if skipped and not in_cell(frames[-1][0]):
        told.append(f"... {skipped} frames in libraries, the last in {frames[-1][0].f_code.co_name}()")
    message = in_the_cell(cut("".join(_alone(kind, error))))
    if isinstance(error, SyntaxError) and cell_of(f"# {error.filename}\n"):
        told = [_GREEN.format(f"Cell {error.filename}, line {error.lineno}")]
        message = message.split("\n", 1)[1]  # its own first line says the same
    lines = [*told, *_NAME.sub(_RED.format(r"\1"), message, count=1).splitlines()]
    group = getattr(builtins, "BaseExceptionGroup", ())  # since Python 3.11
    several = error.exceptions if isinstance(error, group) else ()  # type: ignore[attr-defined]
    for inner in several[:ENDS]:
        lines += ["", *short(type(inner), inner, inner.__traceback__)]
    return [*lines, *([f"... {len(several) - ENDS:,} errors more"] if len(several) > ENDS else [])]


def _alone(kind: type[BaseException], error: BaseException) -> list[str]:
    """What Python says of an error, and of the one that it came of; thousands may be before that."""
    cause, context, hidden = error.__cause__, error.__context__, error.__suppress_context__
    error.__cause__ = error.__context__ = None  # else Python reads the whole chain
    try:
        said = traceback.format_exception_only(kind, error)
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = cause, context, hidden
    before = cause or (None if hidden else context)
    if before is not None:
        said.append(f"\nafter {type(before).__name__}: {spoken(before)}".removesuffix(": ") + "\n")
    return said


def spoken(error: BaseException) -> BaseException:
    """The error, or one of its name that has what can be told of its message, if that is long or raises."""
    try:
        message = str(error)
        if len(message) <= LONG_MESSAGE:
            return error
        message = cut(message)
    except Exception as failure:
        message = f"<its __str__ raised {type(failure).__name__}>"
    return type(type(error).__name__, (Exception,), {})(message)


def of_a_library(frame: FrameType) -> bool:
    """Whether a frame runs code of an installed package, of Python, or of labkit, and not of a cell."""
    return frame.f_code.co_filename.startswith((*_LIBRARIES, "<"))


def around(file: str, line: int) -> list[str]:
    """That line of a file with an arrow, and the lines next to it."""
    first = max(1, line - CONTEXT)
    source = [(n, cut(linecache.getline(file, n).rstrip())) for n in range(first, line + CONTEXT + 1)]
    source = [(n, text) for n, text in source if text and not (n == 1 and cell_of(f"{text}\n"))]
    arrows = [
        f"{_GREEN.format(f'----> {n}')} {text}" if n == line else f"      {n} {text}" for n, text in source
    ]
    return [*arrows, ""]
