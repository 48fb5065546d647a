"""What the last cell on the ranks has left: `lab.last` shows its result again, as after a reload."""

from dataclasses import dataclass

from IPython.display import display

from labkit import LabError
from labkit.lab.display.live import Live
from labkit.lab.display.said import text
from labkit.lab.history import History
from labkit.lab.orders.orders import Orders
from labkit.lab.outcome import CellError, Outcome
from labkit.trace import Trace

NONE = "no cell has come to an end on the ranks"


@dataclass(frozen=True)
class Last:
    """How the last cell ended, the last `trace` (--trace, `lab.trace()`), the last `orders` (--orders)."""

    trace: Trace | None = None
    outcome: Outcome | None = None
    orders: Orders | None = None

    @property
    def history(self) -> History:
        """How the last cell came to its error or its deadlock, step by step. LabError if it ended well."""
        if self.outcome is None or self.outcome.history is None:
            found = NONE if self.outcome is None else "the last cell ended well, or was interrupted"
            raise LabError("lab.last.history", found, "ask after a cell that ended in a deadlock or an error")
        return self.outcome.history

    def __repr__(self) -> str:
        if self.outcome is None:
            return NONE
        return "\n".join(filter(None, [text(self.outcome.said), self.outcome.notes, self._failure()]))

    def _ipython_display_(self) -> None:
        """The same displays as at the cell's end, and its error in words."""
        if self.outcome is None:
            return display({"text/plain": NONE}, raw=True)
        Live(watched=False).finish(self.outcome.said, self.outcome.notes)
        if failure := self._failure():
            display({"text/plain": failure}, raw=True)

    def _failure(self) -> str:
        try:
            self.outcome.raise_for_failure()
        except CellError as error:
            return f"CellError: {error}"
        return ""
