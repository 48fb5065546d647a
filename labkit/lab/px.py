"""%%px on the ranks of a lab: one result per cell, in rank order, and an end in any case.

All options of ipyparallel's magic are accepted. Four have nothing left to choose, and no effect:
`--stream` and `--no-stream` (a running cell is drawn live, its result is in rank order),
`--group-outputs` with -r and -e (always by rank), `--progress-after` (what each rank does is shown)
and `--signal-on-interrupt` (it is SIGINT, and then labkit's verdict).
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ipyparallel import AsyncResult, DirectView
from ipyparallel.client.magics import ParallelMagics, exec_args, output_args
from IPython import get_ipython
from IPython.core import magic_arguments
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from labkit import LabError
from labkit.lab import cell as cells
from labkit.lab import debugging, help, leftovers, meanwhile, numbering, remote
from labkit.lab.display.live import Live, Tiles
from labkit.lab.last import Last
from labkit.lab.mending import Mendable
from labkit.lab.orders.run import every_order
from labkit.lab.outcome import CellError, Outcome
from labkit.lab.remote import send_cell
from labkit.lab.targets import targets
from labkit.launch.interrupts import interrupts_noted
from labkit.rank.wording import numbered
from labkit.trace import Trace

_NOT_WITH_ORDERS = (
    "noblock", "trace", "races", "pdb", "keep_pending", "deadline", "local", "targets", "save_name",
)  # fmt: skip


class Runnable(Mendable, Protocol):
    """What of a lab it takes to run cells on it, and to show them."""

    last: Last

    @property
    def tiles(self) -> Tiles | None: ...

    @property
    def folder(self) -> Path: ...

    def __getitem__(self, targets: slice | list[int]) -> DirectView: ...

    def trace(self) -> AbstractContextManager[Trace]: ...


class PxMagics(ParallelMagics):
    """ipyparallel's magics, in rank order; a cell that cannot end is ended, with the reason."""

    view: DirectView

    def __init__(self, shell: InteractiveShell, lab: Runnable) -> None:
        view = lab[:]
        view.block = True
        super().__init__(shell, view)
        self.lab = lab
        self._asked: Namespace | None = None
        self._sent: list[AsyncResult] = []  # with --noblock, and nobody has seen their ends
        self.magics["line"]["debug"] = self.debug

    @magic_arguments.magic_arguments()
    @exec_args
    @output_args
    @magic_arguments.argument("--local", action="store_const", const=True, help="also run the cell here")
    @magic_arguments.argument("--deadline", type=float, help="interrupt the ranks after so many seconds")
    @magic_arguments.argument(
        leftovers.KEEP, action="store_true", help="the next cell gets what is under way"
    )
    @magic_arguments.argument("--trace", action="store_true", help="draw who sent what to whom, and when")
    @magic_arguments.argument(
        "--races", action="store_true", help="tell of receives from any rank that it is luck what they get"
    )
    @magic_arguments.argument(
        "--orders", action="store_true", help="run the cell in every order that messages can meet in"
    )
    @magic_arguments.argument("--pdb", action="store_true", help="stop in pdb where a rank raises an error")
    def cell_px(self, line: str = "", cell: str | None = None) -> AsyncResult | None:
        """Run the cell on every rank, or on those of --targets."""
        self._asked = magic_arguments.parse_argstring(self.cell_px, line)
        try:
            return super().cell_px(line, cell)
        finally:
            self._asked = None

    def parallel_execute(
        self, cell: str, block: bool | None = None, save_name: str | None = None, **options: object
    ) -> AsyncResult | None:
        """Send the cell; wait; show what the ranks said; raise what they raised."""
        self.lab.require_running()
        if block is None:
            block = self.view.block
        asked = self._asked or Namespace(
            deadline=None, trace=False, races=False, keep_pending=False, pdb=False, orders=False
        )
        if self._asked:  # else it is of %px, somewhere in a cell
            cell = numbered(cell, numbering.number(self.shell))
        recorded = asked.trace or asked.races
        if (recorded or asked.pdb) and not block:
            option = "--trace" if asked.trace else "--races" if asked.races else "--pdb"
            raise LabError(
                f"{option} with --noblock", "nobody waits for the cell's end", "leave one of them out"
            )
        if block:
            self._end_earlier()
        if asked.orders:
            self._in_every_order(cell, block)
            return None
        live = Live(tiles=self.lab.tiles)
        self.lab.last = replace(self.lab.last, outcome=None)
        with (
            self.lab.trace() if recorded else nullcontext() as trace,
            self._post_mortem() if asked.pdb else nullcontext(),
        ):
            with interrupts_noted() as interrupted:  # half a send would leave ranks in different cells
                result = self.last_result = send_cell(self.view, cell)
                if save_name:
                    self.shell.user_ns[save_name] = result
                if not block:
                    self._sent += [] if asked.keep_pending else [result]
                    return result
                with meanwhile.answered(self.shell):
                    outcome = cells.follow(
                        self.lab, result, asked.deadline, live.look, interrupted, asked.keep_pending
                    )
        if asked.races and trace is not None:
            outcome = replace(
                outcome, notes="\n".join(filter(None, [outcome.notes, *map(str, trace.races())]))
            )
        self._finish(live, outcome, trace if asked.trace else None)
        return None

    def ranks(self, named: str) -> list[int]:
        """The ranks that the text after --targets names. Else LabError."""
        return targets(named, len(self.view.client.ids))

    _eval_target_str = ranks  # ipyparallel would run the text as Python

    @property
    def options(self) -> ArgumentParser:
        """What the line of %%px is read with."""
        return self.cell_px.parser

    def result(self, line: str = "") -> None:
        """%pxresult: wait for the last cell to end, if it was sent with --noblock, and show its outcome."""
        if self.last_result is None:
            raise LabError("%pxresult", "these ranks have run no cell yet", "send one: %%px --noblock")
        self._sent = [sent for sent in self._sent if sent is not self.last_result]
        live = Live(tiles=self.lab.tiles)
        with interrupts_noted() as interrupted, meanwhile.answered(self.shell):
            outcome = cells.follow(self.lab, self.last_result, None, live.look, interrupted)
        self._finish(live, outcome)

    def debug(self, line: str = "") -> None:
        """%debug, without labkit's own frames."""
        debugging.debug(self.shell, line)

    def _in_every_order(self, cell: str, block: bool) -> None:
        """Show what comes of the cell in every order; the ranks themselves do not run it."""
        asked = {**vars(self._asked), "noblock": not block}
        found = [f"--{n.replace('_', '-')}" for n in _NOT_WITH_ORDERS if asked.get(n) not in (None, False)]
        if found:
            fix = "leave one of them out"
            raise LabError(f"--orders with {found[0]}", "the cell runs in copies of all ranks only", fix)
        self.lab.last = replace(self.lab.last, orders=None)
        try:
            with self.lab.spare.held():
                orders = every_order(self.lab, self.lab.folder, cell)
        except KeyboardInterrupt:
            raise CellError("interrupted, before every order was played") from None
        self.lab.last = replace(self.lab.last, orders=orders)
        display(orders)

    @contextmanager
    def _post_mortem(self) -> Iterator[None]:
        """Ranks stop in pdb where their cell raises an error."""
        name = "rank.debugger.post_mortem"
        try:
            remote.call(self.lab, name, True, asked="%%px --pdb")
            yield
        finally:
            if self.lab.is_running():  # who is busy, as the call may have found, does it before its next cell
                remote.send(self.lab, name, False)

    def _end_earlier(self) -> None:
        """Follow to its end what the same ranks run first, sent with --noblock; what it leaves is told."""
        mine = set(self.view.client._build_targets(self.view.targets)[1])
        before = [result for result in self._sent if mine & set(result._targets)]
        self._sent = [result for result in self._sent if result not in before]
        if not before:
            return
        last = {rank: child for r in before for rank, child in zip(r._targets, r._children, strict=True)}
        together = AsyncResult(self.view.client, list(last.values()), targets=list(last))
        with interrupts_noted() as interrupted:
            outcome = cells.follow(self.lab, together, interrupted=interrupted)
        if interrupted.is_set():
            outcome.raise_for_failure()
        if self.view.client is not self.lab.client:  # the ranks are new
            self.view = self.lab[self.view.targets]
            self.view.block = True
        if trouble := "\n".join(filter(None, [outcome.stopped, outcome.left, outcome.after])):
            display({"text/plain": f"what was sent with --noblock: {trouble}"}, raw=True)

    def _finish(self, live: Live, outcome: Outcome, trace: Trace | None = None) -> None:
        self.lab.last = replace(self.lab.last, outcome=outcome)
        live.finish(outcome.said, outcome.notes)
        if trace is not None and trace.events:
            display(trace.plot())
        outcome.raise_for_failure()


def register(lab: Runnable) -> None:
    """%%px runs on this lab from now on, in the notebook or IPython session, if there is one."""
    shell = get_ipython()
    if shell is not None:
        magics = PxMagics(shell, lab)
        shell.register_magics(magics)
        help.install(magics)
