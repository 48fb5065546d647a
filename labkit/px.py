"""%%px on the ranks of a lab: one result per cell, in rank order, and an end in any case.

All options of ipyparallel's magic are accepted. Four have nothing left to choose, and no effect:
`--stream` and `--no-stream` (a running cell is drawn live, its result is in rank order),
`--group-outputs` with -r and -e (always by rank), `--progress-after` (what each rank does is shown)
and `--signal-on-interrupt` (it is SIGINT, and then labkit's verdict).
"""

from ipyparallel.client.magics import ParallelMagics, exec_args, output_args
from IPython.core import magic_arguments

from labkit import cell as cells
from labkit.live import Live


class PxMagics(ParallelMagics):
    """ipyparallel's magics, in rank order; a cell that cannot end is ended, with the reason."""

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
        self.lab.require_running()
        if block is None:
            block = self.view.block
        live = Live(tiles=self.lab.tiles)
        with cells.interrupts_noted() as interrupted:  # half a send would leave ranks in different cells
            result = self.last_result = self.view.execute(cell, silent=False, block=False)
            if save_name:
                self.shell.user_ns[save_name] = result
            if not block:
                return result
            outcome = cells.follow(self.lab, result, self._deadline, live.look, interrupted)
        return self._finish(live, outcome)

    def result(self, line=""):
        """%pxresult: wait for the last cell sent with --noblock and show its outcome."""
        if self.last_result is None:
            return super().result(line)
        live = Live(tiles=self.lab.tiles)
        with cells.interrupts_noted() as interrupted:
            outcome = cells.follow(self.lab, self.last_result, None, live.look, interrupted)
        return self._finish(live, outcome)

    def _finish(self, live: Live, outcome: cells.Outcome) -> None:
        live.finish(outcome.said)
        outcome.raise_for_failure()
