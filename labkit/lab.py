"""A lab is a running set of ranks: start it, run cells on it, stop it.

>>> import labkit
>>> lab = labkit.start(4)       # returns when every rank is ready to communicate
>>> lab[:]["rank"]
[0, 1, 2, 3]
>>> lab.stop()
"""

import atexit
import signal
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

import ipyparallel as ipp

from labkit import launch, network, obituary, ranks, warm
from labkit.compare import Comparison, compare
from labkit.deaths import FirstDeath
from labkit.engines import Engines
from labkit.errors import LabError
from labkit.ranks import Rank
from labkit.simulate.network import Network
from labkit.spare import Spare
from labkit.trace import Trace
from labkit.traced import Last, traced
from labkit.view import View
from labkit.watch import State

CALL_DEADLINE = 30.0
"""Seconds within which idle ranks do what labkit itself asks of them."""

_lab: "Lab | None" = None


def start(
    ranks: int | None = None,
    *,
    hosts: str | Sequence[str] | None = None,
    launcher: str | None = None,
    backend: str = "auto",
    mpi: str = "auto",
    device: str = "auto",
) -> "Lab":
    """Start ranks and return when all are ready to communicate. Lesson 00 meets them.

    `hosts` names other machines and their slots, as "miriad2a:2,miriad2b:2", or a file of them; see
    cluster/ssh. A second call returns the same lab with clean namespaces, and with new ranks only if it asks
    for others. Raises LabError if the request makes no sense or if the ranks do not come up.
    """
    global _lab
    plan = launch.plan(ranks, hosts=hosts, launcher=launcher, backend=backend, mpi=mpi, device=device)
    if _lab is None:
        _lab = Lab(plan)
    elif _lab.is_running() and _lab.plan == plan:
        _lab.take_over()
    else:
        _lab.stop()
        _lab.plan = plan
        _lab.restart()
    return _lab


def running(asked: str) -> "Lab":
    """The lab that `start` returned. LabError if there is none yet."""
    if _lab is None:
        raise LabError(asked, "no lab was started in this notebook", "lab = labkit.start(4)")
    return _lab


class Lab:
    """Running ranks, as `labkit.start` returns them. `lab[1]` and `lab[:]` are ipyparallel views."""

    def __init__(self, plan: launch.Plan):
        self.plan = plan
        self.ranks: tuple[Rank, ...] = ()
        self.last, self.is_traced = Last(), False
        self.spare = Spare()
        self._engines: Engines | None = None
        self._ended = ""
        self.tiles: View | None = None
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
        return self._engines is not None and self._engines.is_alive() and all(map(self._lives, self.ranks))

    def require_running(self) -> None:
        """LabError if the lab is stopped, is another notebook's by now, or has lost a rank.

        What is left of a lab that lost a rank is ended. `spare` is on hold from here on: a cell is to run.
        """
        self.spare.hold()
        if self._engines is None:
            raise LabError("a cell on the ranks", self._ended, "lab.restart()")
        if self.is_running():
            warm.require_mine(self._engines.folder)
            return
        cause = obituary.cause_of_death(self.plan, self._engines.folder, self.ranks, self._first_death.pid)
        self._end()
        self._ended = cause
        raise LabError("a cell on the ranks", cause, "lab.restart(); what cells defined is lost")

    def take_over(self) -> None:
        """Make the ranks this notebook's: whatever they run is interrupted, their namespaces are emptied."""
        warm.take(self._engines.folder)
        self.interrupt()
        self.recover()
        self._call("clean")
        self._register_magics()

    def restart(self, ranks: int | None = None) -> "Lab":
        """Replace the ranks by new ones, of another count if asked. What cells defined is lost."""
        plan = self.plan if ranks is None else launch.resized(self.plan, ranks)
        self._end()
        self.plan = plan
        self._start()
        return self

    def interrupt(self, targets: Collection[int] | None = None) -> None:
        """Raise KeyboardInterrupt in what these ranks run (default: all). Idle ranks ignore it."""
        if self.plan.is_remote:
            wanted = [r.rank for r in self.ranks if targets is None or r.rank in targets]
            self.client._send_control_request(wanted, "labkit_interrupt_request", {}, block=False)
            return
        for r in self.ranks:
            process = r.process()
            if process is not None and (targets is None or r.rank in targets):
                process.send_signal(signal.SIGINT)

    def ask_states(self, targets: list[int], timeout: float = 1.0) -> dict[int, State]:
        """What these ranks do at this moment; empty if they do not all answer in `timeout` seconds."""
        if not targets:
            return {}
        asked = self.client._send_control_request(targets, "labkit_state_request", {}, block=False)
        try:
            told = [State(**reply["content"]["state"]) for reply in asked.result(timeout)]
        except TimeoutError:
            return {}
        return {state.rank: state for state in told}

    def recover(self) -> None:
        """Make the process group usable again after an interrupt, on every rank at once."""
        self._call("recover")

    def trace(self) -> AbstractContextManager[Trace]:
        """`with lab.trace() as trace:` records who sends what to whom, in all cells and calls of the block.

        The `labkit.Trace` has its events when the block is left. For one cell there is `%%px --trace`.
        """
        return traced(self)

    def network(self, bandwidth: str | None = None, latency: str | None = None) -> Network | None:
        """Slow all messages between ranks down; without limits, no longer. Lesson 05.

        `lab.network(bandwidth="100Mbit/s", latency="1ms")` puts a token bucket on each rank's way out and
        in, and runs collectives as schedules of messages: all_reduce, all_gather and reduce_scatter as a
        ring, broadcast, reduce and barrier as a tree; others raise a LabError. It never makes messages
        faster. Returns the limits, for `labkit.simulate`; None without. LabError for a backend but "mpi".
        """
        wanted = network.network(bandwidth, latency)
        self.require_running()
        others = {r.backend for r in self.ranks} - {"mpi"}
        if others:
            found = f"the backend is {', '.join(sorted(others))}: its messages cannot be held back"
            raise LabError("a slower network", found, 'labkit.start(backend="mpi")')
        self._call("limit_network", wanted.bandwidth, wanted.alpha)
        return wanted if bandwidth or latency else None

    def stop(self) -> None:
        """End every process of this lab. A second call does nothing."""
        self.spare.discard()
        self._end()
        atexit.unregister(self.stop)
        self._rest()

    def status(self) -> tuple[tuple, ...]:
        """A row per rank: rank, host, pid, device, backend, state (ready, dead or stopped)."""
        return tuple((r.rank, r.host, r.pid, r.device, r.backend, self._state(r)) for r in self.ranks)

    def view(self) -> View:
        """A tile per rank: state, host, memory, and what it waits for, updated while cells run.

        In JupyterLab a widget; right-click it, "Create New View for Output", to have it at the side.
        """
        self.tiles = self.tiles or View(self)
        return self.tiles

    def compare(self, name: str) -> Comparison:
        """Whether all ranks have the same under `name` ("model", "x[0].grad"), and how far apart they are.

        The result is shown as a table, and `assert lab.compare("model").equal` is a check. Raises
        LabError if no rank has it. Lesson 04 compares replicas.
        """
        return compare(self, name)

    def __repr__(self) -> str:
        return ranks.text(self.status())

    def _repr_html_(self) -> str:
        return ranks.html(self.status())

    def _end(self) -> None:
        """The same, but for the spare ranks."""
        engines, self._engines = self._engines, None
        self._ended = "this lab is stopped"
        if engines is not None:
            engines.stop()

    def _start(self) -> None:
        self._engines, adopted = warm.find_or_start(self.plan, self.spare.take)
        if not warm.is_shared():
            atexit.unregister(self.stop)  # a restart must not register it twice
            atexit.register(self.stop)
        try:
            self.ranks = tuple(Rank(**facts) for facts in self._call("describe"))
            here = [] if self.plan.is_remote else [r.process() for r in self.ranks]
            self._first_death = FirstDeath([process for process in here if process])
            numbers = [r.rank for r in self.ranks]
            if numbers != self.client.ids:  # ipyparallel requests engine i for rank i, but may be refused
                found = f"engines {self.client.ids} are ranks {numbers}"
                raise LabError("engine i to be rank i", found, "start again")
        except BaseException:
            self.stop()
            raise
        if adopted:
            self.take_over()
        self._register_magics()
        self.spare.prepare(self.plan, self._engines, tuple(r.pid for r in self.ranks))
        self._rest()

    def _rest(self) -> None:
        if self.tiles:
            self.tiles.rest()

    def _call(self, function: str, *arguments) -> list:
        return self[:].apply_async(_on_rank, function, *arguments).get(CALL_DEADLINE)

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
        return "ready" if self._lives(r) else "dead"

    def _lives(self, r: Rank) -> bool:
        """Whether a rank's process lives; on another host mpiexec stands for it, which ends with any rank."""
        return self._engines.is_alive() if self.plan.is_remote else r.process() is not None


def _on_rank(function: str, *arguments):
    """Runs on a rank, so that the owner need not import torch."""
    from labkit import rank

    return getattr(rank, function)(*arguments)
