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
from labkit.rank import cells
from labkit.rank.cells import in_cell
from labkit.rank.wording import THE_CELL, cell_of, cut, in_the_cell

_LIBRARIES = tuple(
    str(path)
    for path in (Path(torch.__file__).parents[1], sysconfig.get_path("stdlib"), Path(labkit.__file__).parent)
)
CONTEXT = 2  # lines of a cell above and below
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
    """Use the short traceback for every error of a cell; `then` looks at it."""

    def _show(
        shell: InteractiveShell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType,
        tb_offset: int | None = None,
    ) -> list[str]:
        lines = short(kind, error, trace)
        shell._showtraceback(kind, error, lines)
        then(error, trace)
        return lines

    shell.set_custom_exc((BaseException,), _show)
    threading.excepthook = _of_threads(threading.excepthook)
    shell.InteractiveTB.set_mode("Minimal")  # IPython formats each error once more, for its history
    shown, run_code = shell.showtraceback, shell.run_code

    def showtraceback(*args: Any, exception_only: bool = False, **options: Any) -> None:
        """Also of sys.exit in a cell, unless all is well, of which IPython would leave out the line."""
        kind, error, trace = sys.exc_info()
        if isinstance(error, SystemExit) and not error.code:
            raise _Ended
        if exception_only and kind is not None and error is not None and trace is not None:
            _show(shell, kind, error, trace)
        else:
            shown(*args, **options)

    async def run(code: CodeType, result: Any = None, *, async_: bool = False) -> bool:
        try:
            failed = await run_code(code, result, async_=async_)
        except _Ended:
            if result is not None:
                result.error_in_exec = None
            return True  # what stands below is not run
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
    told, skipped = [], 0
    for frame, line in frames:
        file = frame.f_code.co_filename
        if in_cell(frame):
            cell = "" if cells.name(file) == THE_CELL else f" {cells.name(file)}"
            told += [_GREEN.format(f"Cell{cell}, line {line}"), *around(file, line)]
        elif of_a_library(frame):
            skipped += 1
        else:
            told += [_GREEN.format(f"File {file}, line {line}"), *around(file, line)]
    if skipped and not in_cell(frames[-1][0]):
        told.append(f"... {skipped} frames in libraries, the last in {frames[-1][0].f_code.co_name}()")
    message = in_the_cell(cut("".join(traceback.format_exception_only(kind, error))))
    if isinstance(error, SyntaxError) and cell_of(f"# {error.filename}\n"):
        told = [_GREEN.format(f"Cell {error.filename}, line {error.lineno}")]
        message = message.split("\n", 1)[1]  # its own first line says the same
    lines = [*told, *_NAME.sub(_RED.format(r"\1"), message, count=1).splitlines()]
    group = getattr(builtins, "BaseExceptionGroup", ())  # since Python 3.11
    for inner in error.exceptions if isinstance(error, group) else ():  # type: ignore[attr-defined]
        lines += ["", *short(type(inner), inner, inner.__traceback__)]
    return lines


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
