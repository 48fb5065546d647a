"""A lab is a running set of ranks: start it, run cells on it, stop it.

>>> import labkit
>>> lab = labkit.start(4)       # returns when every rank is ready to communicate
>>> lab[:].apply_sync(lambda: rank)
[0, 1, 2, 3]
>>> lab.stop()
"""

import atexit
import signal
from dataclasses import dataclass, fields
from html import escape

import ipyparallel as ipp
import psutil

from labkit import launch, processes
from labkit.engines import Engines
from labkit.errors import LabError
from labkit.watch import State

_lab: "Lab | None" = None


def start(ranks=None, *, hosts=None, launcher=None, backend="auto", mpi="auto", device="auto") -> "Lab":
    """Start ranks and return when all are ready to communicate. Lesson 00 meets them.

    A second call returns the same lab with clean namespaces, and with new ranks only if it asks
    for others. Raises LabError if the request makes no sense or if the ranks do not come up.
    """
    global _lab
    plan = launch.plan(ranks, hosts=hosts, launcher=launcher, backend=backend, mpi=mpi, device=device)
    if _lab is None:
        _lab = Lab(plan)
    elif _lab.is_running() and _lab.plan == plan:
        _lab.clean()
    else:
        _lab.stop()
        _lab.plan = plan
        _lab.restart()
    return _lab


@dataclass(frozen=True)
class Rank:
    """One rank as the table shows it; `started` is the start time of its process."""

    rank: int
    host: str
    pid: int
    device: str
    backend: str
    started: float

    def process(self) -> psutil.Process | None:
        """The living process, or None when it is gone, even if its pid is another's by now."""
        try:
            process = psutil.Process(self.pid)
            return process if process.create_time() == self.started and processes.is_alive(process) else None
        except psutil.Error:
            return None


class Lab:
    """Running ranks, as `labkit.start` returns them. `lab[1]` and `lab[:]` are ipyparallel views."""

    def __init__(self, plan: launch.Plan):
        self.plan = plan
        self.ranks: tuple[Rank, ...] = ()
        self._engines: Engines | None = None
        self._ended = ""
        self._start()

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, targets) -> ipp.DirectView:
        return self.client[targets]

    @property
    def client(self) -> ipp.Client:
        """The ipyparallel client behind the views."""
        if self._engines is None:
            raise LabError("the ranks of this lab", self._ended, "lab.restart()")
        return self._engines.client

    def is_running(self) -> bool:
        """Whether every rank lives, and can be reached."""
        return self._engines is not None and self._engines.is_alive() and all(r.process() for r in self.ranks)

    def require_running(self) -> None:
        """LabError if the lab is stopped, or if a rank has died: then what is left of it is ended."""
        if self._engines is None:
            raise LabError("a cell on the ranks", self._ended, "lab.restart()")
        if self.is_running():
            return
        cause = self._engines.cause_of_death(
            {r.pid: f"rank {r.rank} (pid {r.pid} on {r.host})" for r in self.ranks}
        )
        self.stop()
        self._ended = cause
        raise LabError("a cell on the ranks", cause, "lab.restart(); what cells defined is lost")

    def clean(self) -> None:
        """Empty every rank's namespace, and seed again."""
        self[:].apply_sync(_on_rank, "clean")
        self._register_magics()

    def restart(self, ranks: int | None = None) -> "Lab":
        """Replace the ranks by new ones, of another count if asked. What cells defined is lost."""
        plan = self.plan if ranks is None else launch.resized(self.plan, ranks)
        self.stop()
        self.plan = plan
        self._start()
        return self

    def interrupt(self, targets=None) -> None:
        """Raise KeyboardInterrupt in what these ranks run (default: all). Idle ranks ignore it."""
        for r in self.ranks:
            process = r.process()
            if process is not None and (targets is None or r.rank in targets):
                process.send_signal(signal.SIGINT)

    def ask_states(self, ranks: list[int], timeout: float = 1.0) -> dict[int, State]:
        """What these ranks do at this moment; one that does not answer in time is left out."""
        futures = (
            self.client._send_control_request(ranks, "labkit_state_request", {}, block=False)
            if ranks
            else None
        )
        if futures is None:
            return {}
        try:
            replies = futures.result(timeout)
        except TimeoutError:
            return {}
        told = (State(**reply["content"]["state"]) for reply in replies)
        return {state.rank: state for state in told}

    def recover(self) -> None:
        """Make the process group usable again after an interrupt, on every rank at once."""
        self[:].apply_sync(_on_rank, "recover")

    def stop(self) -> None:
        """End every process of this lab. A second call does nothing."""
        engines, self._engines = self._engines, None
        self._ended = "this lab is stopped"
        if engines is not None:
            engines.stop()
            atexit.unregister(self.stop)

    def status(self) -> tuple[tuple, ...]:
        """A row per rank: rank, host, pid, device, backend, state (ready, dead or stopped)."""
        return tuple((r.rank, r.host, r.pid, r.device, r.backend, self._state(r)) for r in self.ranks)

    def __repr__(self) -> str:
        rows = [_COLUMNS, *(tuple(map(str, row)) for row in self.status())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in self.status()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _start(self) -> None:
        self._engines = Engines(self.plan)
        atexit.register(self.stop)
        try:
            self.ranks = tuple(Rank(**facts) for facts in self[:].apply_sync(_on_rank, "describe"))
            numbers = [r.rank for r in self.ranks]
            if numbers != self.client.ids:  # ipyparallel requests engine i for rank i, but may be refused
                raise LabError(
                    "engine i to be rank i", f"engines {self.client.ids} are ranks {numbers}", "start again"
                )
        except BaseException:
            self.stop()
            raise
        self._register_magics()

    def _register_magics(self) -> None:
        """%%px in this notebook or IPython session, if there is one."""
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None:
            from labkit.px import PxMagics

            shell.register_magics(PxMagics(shell, self))

    def _state(self, r: Rank) -> str:
        if self._engines is None:
            return "stopped"
        return "ready" if r.process() else "dead"


_COLUMNS = (*(f.name for f in fields(Rank) if f.name != "started"), "state")


def _on_rank(function: str):
    """Runs on a rank, so that the owner need not import torch."""
    from labkit import rank

    return getattr(rank, function)()
