"""A rank's traceback, short: the lines of the cell and of the learner's own files, then the error.

IPython's own reads and parses every library file on the way, which takes seconds for torch's, and
shows a learner twenty frames of machinery.
"""

import linecache
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

import torch
from IPython.core.interactiveshell import InteractiveShell

import labkit
from labkit.rank.protocol import cut, in_the_cell
from labkit.rank.state import in_cell

_LIBRARIES = tuple(
    str(path)
    for path in (Path(torch.__file__).parents[1], sysconfig.get_path("stdlib"), Path(labkit.__file__).parent)
)
CONTEXT = 2  # lines of a cell above and below


def install(shell: InteractiveShell) -> None:
    """Use the short traceback for every error of a cell but a syntax error, which has no frames."""
    shell.set_custom_exc((BaseException,), _show)
    shell.InteractiveTB.set_mode("Minimal")  # IPython formats each error once more, for its history


def _show(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> list[str]:
    lines = short(kind, error, trace, shell.execution_count)
    shell._showtraceback(kind, error, lines)
    return lines


def short(kind: type[BaseException], error: BaseException, trace: TracebackType, count: int) -> list[str]:
    """The lines of a traceback; `count` is the number of the cell."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(trace)]
    told, skipped = [], 0
    for frame, line in frames:
        if in_cell(frame):
            told += [f"Cell In[{count}], line {line}", *_around(frame.f_code.co_filename, line)]
        elif frame.f_code.co_filename.startswith(_LIBRARIES) or frame.f_code.co_filename.startswith("<"):
            skipped += 1
        else:
            told += [
                f"File {frame.f_code.co_filename}, line {line}",
                *_around(frame.f_code.co_filename, line),
            ]
    if skipped and not in_cell(frames[-1][0]):
        told.append(f"... {skipped} frames in libraries, the last in {frames[-1][0].f_code.co_name}()")
    message = "".join(traceback.format_exception_only(kind, error))
    return [*told, *in_the_cell(cut(message)).splitlines()]


def _around(file: str, line: int) -> list[str]:
    first = max(1, line - CONTEXT)
    source = [(n, cut(linecache.getline(file, n).rstrip())) for n in range(first, line + CONTEXT + 1)]
    arrows = [f"----> {n} {text}" if n == line else f"      {n} {text}" for n, text in source if text]
    return [*arrows, ""]
