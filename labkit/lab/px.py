"""%%px on the ranks of a lab: one result per cell, in rank order, and an end in any case.

All options of ipyparallel's magic are accepted. Four have nothing left to choose, and no effect:
`--stream` and `--no-stream` (a running cell is drawn live, its result is in rank order),
`--group-outputs` with -r and -e (always by rank), `--progress-after` (what each rank does is shown)
and `--signal-on-interrupt` (it is SIGINT, and then labkit's verdict).
"""

import ast
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ipyparallel import AsyncResult, DirectView
from ipyparallel.client.magics import ParallelMagics, exec_args, output_args
from IPython import get_ipython
from IPython.core import magic_arguments
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from labkit import LabError
from labkit.lab import cell as cells
from labkit.lab import leftovers
from labkit.lab.display.live import Live, Tiles
from labkit.lab.remote import send_cell
from labkit.trace import Trace


class Runnable(cells.Mendable, Protocol):
    """What of a lab it takes to run cells on it, and to show them."""

    @property
    def tiles(self) -> Tiles | None: ...

    def __getitem__(self, targets: slice) -> DirectView: ...

    def trace(self) -> AbstractContextManager[Trace]: ...


class PxMagics(ParallelMagics):
    """ipyparallel's magics, in rank order; a cell that cannot end is ended, with the reason."""

    def __init__(self, shell: InteractiveShell, lab: Runnable) -> None:
        view = lab[:]
        view.block = True
        super().__init__(shell, view)
        self.lab = lab
        self._deadline: float | None = None
        self._traced = self._keep = False

    @magic_arguments.magic_arguments()
    @exec_args
    @output_args
    @magic_arguments.argument("--local", action="store_const", const=True, help="also run the cell here")
    @magic_arguments.argument("--deadline", type=float, help="interrupt the ranks after so many seconds")
    @magic_arguments.argument(
        leftovers.KEEP, action="store_true", help="the next cell gets what is under way"
    )
    @magic_arguments.argument("--trace", action="store_true", help="draw who sent what to whom, and when")
    def cell_px(self, line: str = "", cell: str | None = None) -> AsyncResult | None:
        """Run the cell on every rank, or on those of --targets."""
        asked = magic_arguments.parse_argstring(self.cell_px, line)
        self._deadline, self._traced, self._keep = asked.deadline, asked.trace, asked.keep_pending
        try:
            return super().cell_px(line, cell)
        finally:
            self._deadline, self._traced, self._keep = None, False, False

    def parallel_execute(
        self, cell: str, block: bool | None = None, save_name: str | None = None, **options: object
    ) -> AsyncResult | None:
        """Send the cell; wait; show what the ranks said; raise what they raised."""
        self.lab.require_running()
        if block is None:
            block = self.view.block
        if self._traced and not block:
            raise LabError(
                "--trace with --noblock", "nobody waits for the cell's end", "leave one of them out"
            )
        live = Live(tiles=self.lab.tiles)
        with self.lab.trace() if self._traced else nullcontext() as trace:
            with cells.interrupts_noted() as interrupted:  # half a send would leave ranks in different cells
                result = self.last_result = send_cell(self.view, cell)
                if save_name:
                    self.shell.user_ns[save_name] = result
                if not block:
                    return result
                outcome = cells.follow(self.lab, result, self._deadline, live.look, interrupted, self._keep)
        self._finish(live, outcome, trace)
        return None

    def _eval_target_str(self, text: str) -> list[int]:
        """The ranks that --targets names; ipyparallel would run the text as Python."""
        return targets(text, len(self.view.client.ids))

    def result(self, line: str = "") -> AsyncResult | None:
        """%pxresult: wait for the last cell sent with --noblock and show its outcome."""
        if self.last_result is None:
            return super().result(line)
        live = Live(tiles=self.lab.tiles)
        with cells.interrupts_noted() as interrupted:
            outcome = cells.follow(self.lab, self.last_result, None, live.look, interrupted)
        self._finish(live, outcome)
        return None

    def _finish(self, live: Live, outcome: cells.Outcome, trace: Trace | None = None) -> None:
        live.finish(outcome.said, outcome.notes)
        if trace is not None and trace.events:
            display(trace.plot())
        outcome.raise_for_failure()


def targets(text: str, world_size: int) -> list[int]:
    """The ranks that a text names: all, one, several, or a slice. Else LabError.

    >>> targets("1:", 4), targets("0,-1", 4), targets("all", 4)
    ([1, 2, 3], [0, 3], [0, 1, 2, 3])
    """
    everyone = range(world_size)
    part = re.fullmatch(r"\[?(-?\d*):(-?\d*)(?::(-?\d*))?\]?", text.replace(" ", ""))
    try:
        if text == "all":
            return list(everyone)
        if part:
            found = list(everyone[slice(*(int(bound) if bound else None for bound in part.groups()))])
        else:
            named = ast.literal_eval(text.strip())
            found = [everyone[rank] for rank in (named if isinstance(named, tuple | list) else [named])]
    except (ValueError, SyntaxError, TypeError, IndexError):
        found = []
    if not found:
        there = "rank 0 alone" if world_size == 1 else f"ranks 0 to {world_size - 1}"
        fix = "write one as 1, several as 0,2 or 1:3, or all"
        raise LabError(f"a cell on --targets {text}", f"this lab has {there}", fix)
    return found


def register(lab: Runnable) -> None:
    """%%px runs on this lab from now on, in the notebook or IPython session, if there is one."""
    shell = get_ipython()
    if shell is not None:
        shell.register_magics(PxMagics(shell, lab))
