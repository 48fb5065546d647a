"""%debug in a notebook with a lab: it opens the learner's code, and says so where there is none to open."""

import sys
from pathlib import Path
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magics import ExecutionMagics

import labkit
from labkit import LabError
from labkit.lab.outcome import CellError

_LABKIT = str(Path(labkit.__file__).parent)


def debug(shell: InteractiveShell, line: str) -> None:
    """IPython's own, without labkit's frames. LabError if the last error was one of ranks."""
    error = getattr(sys, "last_value", None)
    if not line.strip() and isinstance(error, CellError):
        found = "the last error was raised on ranks, and what they had is gone"
        raise LabError(
            "%debug", found, "run the cell again with %%px --pdb: it stops where the error is raised"
        )
    if not line.strip() and error is not None:
        sys.last_traceback = shell.InteractiveTB.tb = without_labkit(error.__traceback__)
        error.__traceback__ = sys.last_traceback
    ExecutionMagics(shell).debug(line)


def without_labkit(trace: TracebackType | None) -> TracebackType | None:
    """A traceback down to where labkit was called."""
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(_LABKIT):
        return None
    return TracebackType(without_labkit(trace.tb_next), trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
