"""A lab is a running set of ranks: run cells on it, give it new ranks, stop it."""

import atexit
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import ipyparallel as ipp

from labkit import LabError, launch
from labkit.lab import network, px, remote
from labkit.lab.compare import compare
from labkit.lab.debugging import Attachable, attachable
from labkit.lab.display.comparison import Comparison
from labkit.lab.display.tables import ranks_html, ranks_text
from labkit.lab.display.view import View
from labkit.lab.last import Last
from labkit.lab.stopped import Stopped
from labkit.lab.tracing import traced
from labkit.launch import cause_of_death, shared
from labkit.launch.engines import Engines
from labkit.launch.interrupts import interrupts_held
from labkit.launch.ranks import Rank
from labkit.launch.spare import Spare
from labkit.rank.protocol import Leftover
from labkit.simulate.network import Network
from labkit.trace import Trace


class Lab:
    """Running ranks, as `labkit.start` returns them. `lab[1]` and `lab[:]` are ipyparallel views."""

    def __init__(self, plan: launch.Plan, take: bool = False) -> None:
        self.plan = plan
        self.ranks: tuple[Rank, ...] = ()
        self.last, self.is_traced = Last(), False
        self.spare = Spare()
        self._engines: Engines | None = None
        self._ended = ""
        self._stopped = Stopped()
        self.tiles: View | None = None
        self._start(take)

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, targets: int | slice | list[int]) -> ipp.DirectView:
        try:
            return self.client[targets]
        except (IndexError, KeyError, TypeError) as error:
            found = f"the ranks are 0 to {len(self) - 1} ({error})"
            raise LabError(f"lab[{targets!r}]", found, "write lab[1], lab[[0, 1]] or lab[:]") from None

    def __iter__(self) -> Iterator[ipp.DirectView]:
        return (self[rank] for rank in range(len(self)))

    @property
    def client(self) -> ipp.Client:
        """The ipyparallel client behind the views."""
        if self._engines is None:
            raise LabError("the ranks of this lab", self._ended, "lab.restart()")
        return self._engines.client

    @property
    def folder(self) -> Path:
        """Where what belongs to the running lab is, which nobody else enters."""
        if self._engines is None:
            raise LabError("the folder of this lab", self._ended, "lab.restart()")
        return self._engines.folder

    def is_running(self) -> bool:
        """Whether every rank lives, and can be reached."""
        return self._engines is not None and self._engines.is_alive() and all(map(self._lives, self.ranks))

    def require_running(self) -> None:
        """LabError if the lab is stopped, has lost a rank, or is another notebook's by now."""
        self.require_alive()
        shared.require_mine(self._engines.folder)

    def require_alive(self) -> None:
        """LabError if the lab is stopped, or has lost a rank; then the others are ended."""
        if self._engines is None:
            raise LabError("a cell on the ranks", self._ended, "lab.restart()")
        if self.is_running():
            self._stopped.refuse(self.ranks, self._engines.folder)
            return
        folder = self._engines.folder
        cause = shared.ended_elsewhere(folder) or cause_of_death.cause_of_death(self.plan, folder, self.ranks)
        self._end()
        self._ended = cause
        raise LabError("a cell on the ranks", cause, "lab.restart(); what cells defined is lost")

    def take_over(self) -> None:
        """Make the ranks this notebook's: whatever they run is interrupted, their namespaces are emptied.

        New ranks take the place of those that hear no interrupt.
        """
        shared.take(self._engines.folder)
        if not remote.make_idle(self):
            self.restart()
            return
        self.recover()
        remote.call(self, "clean", asked="empty namespaces")
        px.register(self)

    def restart(self, ranks: int | None = None, *, take: bool = False) -> "Lab":
        """Replace the ranks by new ones, of another count if asked. What cells defined is lost.

        LabError if another notebook runs a cell on them, which only `take=True` ends.
        """
        plan = self.plan if ranks is None else launch.resized(self.plan, ranks)
        if not take:
            self.require_leave()
        self._end()
        self.plan = plan
        self._start(take)
        return self

    def require_leave(self) -> None:
        """LabError if another notebook runs a cell on the ranks."""
        if self._engines is not None:
            shared.require_leave(self._engines.folder, self.plan, remote.under_way)

    def interrupt(self, targets: Collection[int] | None = None) -> None:
        """Raise KeyboardInterrupt in what these ranks run (default: all). Idle ranks ignore it."""
        remote.interrupt(self, targets)

    def recover(self) -> None:
        """Make the process group usable again after an interrupt, on every rank at once."""
        self.settle(everything=True, rejoin=False)

    def settle(self, everything: bool, rejoin: bool) -> tuple[Leftover, ...]:
        """Have nothing under way for which nobody waits, on every rank at once, and tell what it was.

        With `everything` also what some rank gave up. `rejoin`: make the process group anew.
        """
        asked = "a process group that is usable again"
        return tuple(sum(remote.call(self, "settle", everything, rejoin, asked=asked), []))

    def trace(self) -> AbstractContextManager[Trace]:
        """`with lab.trace() as trace:` records who sends what to whom, in all cells and calls of the block.

        The `labkit.Trace` has its events when the block is left. For one cell there is `%%px --trace`.
        """
        return traced(self)

    def network(
        self, bandwidth: str | None = None, latency: str | None = None, *, ranks_per_host: int = 1
    ) -> Network | None:
        """Slow messages between ranks down; without limits, no longer. Lesson 05.

        `lab.network(bandwidth="100Mbit/s", latency="1ms")` puts a token bucket on each rank's way out and
        in, and runs collectives as schedules of messages: all_reduce, all_gather and reduce_scatter as a
        ring, broadcast, reduce and barrier as a tree; others raise a LabError. Asynchronous ones in a
        ring move while their rank computes. With `ranks_per_host=2` ranks 0 and 1 are as on one host, and 2
        and 3: what stays on a host is not held back; what leaves it takes its rank's own link. It never
        makes messages faster. Returns the limits, for `labkit.simulate`; None without. LabError for a
        backend but "mpi".
        """
        return network.limit(self, bandwidth, latency, ranks_per_host)

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

        In JupyterLab a widget; right-click it, *Create New View for Cell Output*, to have it at the side.
        """
        self.tiles = self.tiles or View(self)
        return self.tiles

    def debugpy(self, rank: int = 0) -> Attachable:
        """Let VS Code, or whatever else speaks debugpy's protocol, attach to a rank; says where, and how.

        It opens a port on the loopback of the rank's host that asks nobody who he is, until the lab stops:
        nothing for a machine that others use too. `breakpoint()` needs no port. LabError if there is no such
        rank.
        """
        return attachable(self, rank)

    def compare(self, name: str) -> Comparison:
        """Whether all ranks have the same under `name` ("model", "x[0].grad"), and how far apart they are.

        The result is shown as a table, and `assert lab.compare("model").equal` is a check. Raises
        LabError if no rank has it. Lesson 04 compares replicas.
        """
        return compare(self, name)

    def __repr__(self) -> str:
        return ranks_text(self.status())

    def _repr_html_(self) -> str:
        return ranks_html(self.status())

    def _end(self) -> None:
        """End the ranks; the spare ones stay."""
        with interrupts_held():
            engines, self._engines = self._engines, None
            self._ended = "this lab is stopped"
            if engines is not None:
                engines.stop()

    def _start(self, take: bool = False) -> None:
        with shared.one_at_a_time():
            found = shared.find(self.plan, None if take else remote.under_way)
            if found:
                self._engines, self.ranks = found
            else:
                self._start_new()
        if not shared.is_shared():
            atexit.unregister(self.stop)  # a restart must not register it twice
            atexit.register(self.stop)
        if found:
            self.take_over()
        px.register(self)
        with suppress(OSError):  # spare ranks are a luxury
            self.spare.prepare(self.plan, self._engines, tuple(r.pid for r in self.ranks))
        self._rest()

    def _start_new(self) -> None:
        self.ranks, self._engines = (), shared.new(self.plan, self.spare.take)
        try:
            told = remote.call(self, "describe", asked=f"{self.plan.ranks} ranks")
            self.ranks = tuple(Rank(**facts) for facts in told)
            numbers = [r.rank for r in self.ranks]
            if numbers != self.client.ids:  # ipyparallel requests engine i for rank i, but may be refused
                found = f"engines {self.client.ids} are ranks {numbers}"
                raise LabError("engine i to be rank i", found, "start again")
            shared.publish(self._engines.folder, self.plan, self.ranks)
        except BaseException:
            self.stop()
            raise

    def _rest(self) -> None:
        if self.tiles:
            self.tiles.rest()

    def _state(self, r: Rank) -> str:
        if self._engines is None:
            return "stopped"
        return "ready" if self._lives(r) else "dead"

    def _lives(self, r: Rank) -> bool:
        """Whether a rank's process lives; on another host mpiexec stands for it, which ends with any rank."""
        return self._engines.is_alive() if self.plan.is_remote else r.process() is not None
