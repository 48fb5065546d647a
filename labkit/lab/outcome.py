"""What ranks have said in a cell, and how it ended."""

from dataclasses import dataclass
from typing import Any

from ipyparallel import AsyncResult
from ipyparallel.error import RemoteError

from labkit.lab.display import redrawn
from labkit.lab.display.said import Failure, Said, failures
from labkit.lab.history import History
from labkit.rank.protocol import LEFT, Left
from labkit.rank.wording import cut


class CellError(Exception):
    """A cell that did not end well on every rank: which rank, what, and in which line."""

    def __init__(self, message: str, tracebacks: list[str] | None = None) -> None:
        super().__init__(message)
        self._tracebacks = tracebacks or []

    def _render_traceback_(self) -> list[str]:
        return [*self._tracebacks, f"\x1b[31mCellError\x1b[0m: {self}"]


@dataclass(frozen=True)
class Outcome:
    """How a cell ended. `stopped` says why it was ended early, `after` what that did to the ranks.

    `left` is what it left under way, `notes` what else the learner should know, `history` how it came to
    that, of a cell that did not end well. One that was `stuck` could not have ended by itself.
    """

    said: tuple[Said, ...]
    stopped: str = ""
    left: str = ""
    after: str = ""
    notes: str = ""
    history: History | None = None
    stuck: bool = False

    def raise_for_failure(self) -> None:
        """CellError if the cell was stopped, any rank raised, or something could not end."""
        failed = [s for s in self.said if s.failure and not (self.stopped and s.failure.is_interrupt())]
        if not (failed or self.stopped or self.left or self.after):
            return
        message = "\n".join(filter(None, [self.stopped, failures(failed), self.left, self.after]))
        distinct = {s.failure.message: "\n".join(s.failure.traceback) for s in reversed(failed)}
        raise CellError(message, list(distinct.values()))


def gather(result: AsyncResult) -> tuple[Said, ...]:
    """What each rank has said in a cell so far, in rank order."""
    said = []
    for rank, child in zip(result._targets, result._children, strict=True):
        record, done = child.output.metadata, child.done()
        shown = [*record["outputs"], *filter(None, [record["execute_result"]])]
        told = redrawn.left(record["stdout"], record["stderr"], [o for o in shown if "data" in o])
        failure = _failure(child) if done else None
        left = _left(child) if done else Left()
        said.append(Said(rank, *told, failure, done, left))
    return tuple(sorted(said, key=lambda s: s.rank))


def _failure(child: Any) -> Failure | None:
    error = child.exception() or child.result()
    if isinstance(error, RemoteError):
        lines = tuple((error.traceback or "").splitlines())
        return Failure(error.ename, cut(str(error.evalue)), lines)
    return Failure(type(error).__name__, cut(str(error))) if isinstance(error, Exception) else None


def _left(child: Any) -> Left:
    """What a rank has added to its reply (`labkit.rank.leftovers`)."""
    reply = child.exception() or child.result()
    told = reply.engine_info if isinstance(reply, RemoteError) else getattr(reply, "_content", None)
    return Left.of((told or {}).get(LEFT, {}))
