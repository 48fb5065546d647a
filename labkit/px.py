"""%%px on the ranks of a lab: one result per cell, in rank order, and an end in any case."""

import time

from ipyparallel.client.asyncresult import AsyncResult
from ipyparallel.client.magics import ParallelMagics, exec_args, output_args
from ipyparallel.error import RemoteError
from IPython.core import magic_arguments
from IPython.display import display

from labkit import report
from labkit.errors import LabError

RETURN_DEADLINE = 2.0
"""Seconds that interrupted ranks are given to come back before they are replaced."""


class CellError(Exception):
    """A cell that did not end well on every rank. The message says which rank, what and where."""

    def __init__(self, message: str, tracebacks: list[str] | None = None):
        super().__init__(message)
        self._tracebacks = tracebacks or []

    def _render_traceback_(self):
        return [*self._tracebacks, f"\x1b[31mCellError\x1b[0m: {self}"]


class PxMagics(ParallelMagics):
    """ipyparallel's magics with output in rank order and, by `--deadline`, an end to a deadlock."""

    def __init__(self, shell, lab):
        view = lab[:]
        view.block = True
        super().__init__(shell, view)
        self.lab = lab
        self._deadline: float | None = None

    @magic_arguments.magic_arguments()
    @exec_args
    @output_args
    @magic_arguments.argument("--local", action="store_const", const=True, help="also run the cell here")
    @magic_arguments.argument("--deadline", type=float, help="interrupt the ranks after so many seconds")
    def cell_px(self, line="", cell=None):
        """Run the cell on every rank, or on those of --targets."""
        self._deadline = magic_arguments.parse_argstring(self.cell_px, line).deadline
        try:
            return super().cell_px(line, cell)
        finally:
            self._deadline = None

    def parallel_execute(self, cell, block=None, save_name=None, **options):
        """Send the cell; wait; show what the ranks said; raise what they raised."""
        self._require_ranks()
        result = self.last_result = self.view.execute(cell, silent=False, block=False)
        if save_name:
            self.shell.user_ns[save_name] = result
        if not (self.view.block if block is None else block):
            return result
        stopped = self._wait(result)
        said = gather(result)
        show(said)
        if stopped:
            raise CellError(self._after_stop(stopped, said, result))
        raise_failures(said)

    def result(self, line=""):
        """%pxresult: show the outcome of the last cell sent with --noblock."""
        if self.last_result is None:
            return super().result(line)
        self.last_result.wait()
        said = gather(self.last_result)
        show(said)
        raise_failures(said)

    def _require_ranks(self) -> None:
        if not self.lab.is_running():
            dead = [r.rank for r in self.lab.ranks if r.process() is None]
            found = (
                f"{report.ranks(dead)} no longer lives" if self.lab.has_started() else "this lab is stopped"
            )
            raise LabError("a cell on the ranks", found, "lab.restart()")

    def _wait(self, result: AsyncResult) -> str:
        """Until all ranks are done; else why they were stopped, after they were interrupted."""
        start = time.monotonic()
        try:
            while not result.done():
                result.wait(0.05)
                if self._deadline is not None and time.monotonic() - start > self._deadline:
                    stopped = f"the deadline of {self._deadline:g} s passed"
                    break
                if not self.lab.is_running():
                    raise self.lab.death()
            else:
                result.wait_for_output(5)
                return ""
        except KeyboardInterrupt:
            stopped = "interrupted"
        busy = {
            engine
            for engine, child in zip(result._targets, result._children, strict=True)
            if not child.done()
        }
        self.lab.interrupt(busy)
        result.wait(RETURN_DEADLINE)
        result.wait_for_output(0.5)
        return stopped

    def _after_stop(self, stopped: str, said: list[report.Said], result: AsyncResult) -> str:
        """Make the lab usable again, and say what happened."""
        interrupted = [s for s in said if s.failure and s.failure.name == "KeyboardInterrupt"]
        failed = [s for s in said if s.failure and s not in interrupted]
        lost = sorted(set(result._targets) - {s.rank for s in said})
        if lost:
            back = f"{report.ranks(lost)} did not come back: all ranks are new, what cells defined is lost"
            self.lab.restart()
        else:
            back = ""
            self.lab.recover()
        return "\n".join(
            filter(None, [stopped, report.failures(failed), report.whereabouts(interrupted), back])
        )


def gather(result: AsyncResult) -> list[report.Said]:
    """What each rank that has finished said in a cell, in rank order."""
    said = []
    for engine, child in zip(result._targets, result._children, strict=True):
        if child.done():
            record = child.output.metadata
            shown = [*record["outputs"], *filter(None, [record["execute_result"]])]
            displays = tuple(output["data"] for output in shown if "data" in output)
            said.append(report.Said(engine, record["stdout"], record["stderr"], displays, _failure(child)))
    return sorted(said, key=lambda s: s.rank)


def _failure(child) -> report.Failure | None:
    error = child.exception() or child.result()
    if isinstance(error, RemoteError):
        return report.Failure(error.ename, str(error.evalue), tuple((error.traceback or "").splitlines()))
    return report.Failure(type(error).__name__, str(error)) if isinstance(error, Exception) else None


def show(said: list[report.Said]) -> None:
    """One display of all text, then the pictures in rank order."""
    words = report.text(said)
    if words:
        display({"text/plain": words}, raw=True)
    for s in said:
        for bundle in filter(report.pictures, s.displays):
            display(report.pictures(bundle) | {"text/plain": f"picture of rank {s.rank}"}, raw=True)


def raise_failures(said: list[report.Said]) -> None:
    """CellError if any rank raised; each distinct traceback once."""
    failed = [s for s in said if s.failure]
    if failed:
        distinct = {s.failure.message: "\n".join(s.failure.traceback) for s in reversed(failed)}
        raise CellError(report.failures(failed), list(distinct.values()))
