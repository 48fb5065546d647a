"""A lab is a running set of ranks, and what can be asked of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from labkit import LabError, launch
from labkit.lab import network, px
from labkit.lab.compare import compare
from labkit.lab.debugging import Attachable, attachable
from labkit.lab.display.comparison import Comparison
from labkit.lab.display.tables import ranks_html, ranks_text
from labkit.lab.display.view import View as Tiles
from labkit.lab.last import Last
from labkit.lab.lifecycle import Lifecycle
from labkit.lab.tracing import traced
from labkit.lab.views import View
from labkit.launch.ranks import Rank
from labkit.simulate.network import Network
from labkit.trace import Trace


class Lab(Lifecycle):
    """Running ranks, as `labkit.start` returns them. `lab[1]` and `lab[:]` are ipyparallel views."""

    def __init__(self, plan: launch.Plan, take: bool = False) -> None:
        self.last, self.is_traced = Last(), False
        self.tiles: Tiles | None = None
        super().__init__(plan, take)

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, targets: int | slice | list[int]) -> View:
        try:
            return View(self.client, self.client[targets].targets, self.require_alive)
        except (IndexError, KeyError, TypeError) as error:
            found = f"the ranks are 0 to {len(self) - 1} ({error})"
            raise LabError(f"lab[{targets!r}]", found, "write lab[1], lab[[0, 1]] or lab[:]") from None

    def __iter__(self) -> Iterator[View]:
        return (self[rank] for rank in range(len(self)))

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

    def status(self) -> tuple[tuple, ...]:
        """A row per rank: rank, host, pid, device, backend, state (ready, dead or stopped)."""
        return tuple((r.rank, r.host, r.pid, r.device, r.backend, self._state(r)) for r in self.ranks)

    def view(self) -> Tiles:
        """A tile per rank: state, host, memory, and what it waits for, updated while cells run.

        In JupyterLab a widget; right-click it, *Create New View for Cell Output*, to have it at the side.
        """
        self.tiles = self.tiles or Tiles(self)
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

    def _state(self, r: Rank) -> str:
        if self._engines is None:
            return "stopped"
        lives = self._engines.is_alive() if self.plan.is_remote else r.process()
        return "ready" if lives else "dead"

    def _changed(self) -> None:
        if self._engines is not None:
            px.register(self)
        if self.tiles:
            self.tiles.rest()
