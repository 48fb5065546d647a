"""%debug in a notebook with a lab, and debuggers from outside.

%debug opens the learner's code, and says so where there is none to open.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magics import ExecutionMagics

import labkit
from labkit import LabError
from labkit.lab import remote
from labkit.lab.outcome import CellError
from labkit.lab.remote import Reachable

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


@dataclass(frozen=True)
class Attachable:
    """Where a debugger from outside can attach to a rank: an address of the loopback of the rank's host."""

    rank: int
    host: str
    address: str
    port: int

    def __repr__(self) -> str:
        return (
            f"rank {self.rank} on {self.host} waits for a debugger at {self.address}:{self.port}\n"
            'VS Code: Run and Debug, "Python Debugger: Remote Attach", with this host and port, and in\n'
            'launch.json "justMyCode": false, for it takes cells for a library\'s\n'
            "`import debugpy; debugpy.breakpoint()` in a cell or in a file of yours stops there then\n"
            f"until the lab stops, everybody with an account on {self.host} can attach and act as you"
        )


def attachable(lab: Reachable, rank: int) -> Attachable:
    """Have a rank wait for a debugger. LabError if there is no such rank, or it is busy."""
    asked = f"lab.debugpy(rank={rank!r})"
    if rank not in range(len(lab.ranks)):
        raise LabError(asked, f"the ranks are 0 to {len(lab.ranks) - 1}", "name one of them")
    lab.require_running()
    ((address, port),) = remote.call(lab, "rank.attach.listen", asked=asked, targets=[rank])
    return Attachable(rank, lab.ranks[rank].host, address, port)
