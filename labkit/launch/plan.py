"""Where ranks run: a plan that is checked before anything starts."""

import os
import sys
from dataclasses import dataclass, replace

from labkit import LabError
from labkit.launch import slurm
from labkit.launch.hosts import names
from labkit.launch.hosts.names import Host
from labkit.launch.mpi import MPI, find_mpi, one_of

BACKENDS = ("auto", "mpi", "gloo")
DEVICES = ("auto", "cpu", "cuda")
LAUNCHERS = ("auto", "mpiexec", "slurm")
DEFAULT_RANKS = 4
MAX_RANKS = 256


@dataclass(frozen=True)
class Plan:
    """How many ranks, on what, talking through what. Equal plans give equal labs."""

    ranks: int
    mpi: MPI
    backend: str = "auto"
    device: str = "auto"
    launcher: str = "mpiexec"
    hosts: tuple[Host, ...] = ()  # empty: this machine, or the nodes that Slurm gives

    @property
    def is_remote(self) -> bool:
        """Whether ranks may be on other machines than this one."""
        return bool(self.hosts) or self.launcher == "slurm"

    def command(self, job: str) -> list[str]:
        """What starts the ranks; -n with their number, and the program, follow. `job` is a name for Slurm."""
        if self.launcher == "slurm":
            return slurm.command(self.mpi.name, self.device, job)
        return [self.mpi.mpiexec, *([] if self.hosts else self.mpi.local_options())]

    def placed(self) -> tuple[Host, ...]:
        """The hosts that get ranks, each with their number: the first is filled first."""
        left, placed = self.ranks, []
        for host in self.hosts:
            placed.append(replace(host, slots=min(host.slots, left)))
            left -= placed[-1].slots
        return tuple(host for host in placed if host.slots)

    def program(self) -> list[str]:
        """The command that each rank runs."""
        return [sys.executable, "-m", "labkit.rank"]

    def environment(self) -> dict[str, str]:
        """What each rank finds in its environment, beside what the owner has."""
        # gloo would otherwise look up the host's name, which a laptop's network may not know
        loopback = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}
        return {
            "OMP_NUM_THREADS": "1",
            "LABKIT_BACKEND": self.backend,
            "LABKIT_DEVICE": self.device,
            "LABKIT_WORLD_SIZE": str(self.ranks),
            "LABKIT_CHECK": os.environ.get("LABKIT_CHECK", "1"),
        } | (self.mpi.environment() | ({} if self.is_remote else loopback))


def plan(
    ranks: float | str | None = None,
    *,
    hosts: str | None = None,
    launcher: str | None = None,
    backend: str = "auto",
    mpi: str = "auto",
    device: str = "auto",
) -> Plan:
    """Check what was asked against what is here; raises LabError before anything is started.

    A count that the caller names wins; the environment (`LABKIT_RANKS`, `LABKIT_LAUNCHER`,
    `LABKIT_BACKEND`, `LABKIT_DEVICE`, `LABKIT_HOSTS`) fills in what is left open.
    """
    named = names.parse(hosts or os.environ.get("LABKIT_HOSTS") or "")
    launcher = launcher or os.environ.get("LABKIT_LAUNCHER") or "auto"
    one_of("launcher", launcher, LAUNCHERS)
    if backend == "auto":
        backend = os.environ.get("LABKIT_BACKEND") or "auto"
    one_of("backend", backend, BACKENDS)
    if device == "auto":
        device = os.environ.get("LABKIT_DEVICE") or "auto"
    one_of("device", device, DEVICES)
    default = sum(host.slots for host in named) or os.environ.get("LABKIT_RANKS") or DEFAULT_RANKS
    found, launcher = find_mpi(mpi), "mpiexec" if launcher == "auto" else launcher
    if launcher == "slurm":
        if named:
            raise LabError("hosts, and Slurm", "Slurm itself chooses the nodes", "leave out one of the two")
        slurm.require(found.name)
    return resized(Plan(1, found, backend, device, launcher, named), default if ranks is None else ranks)


def resized(plan: Plan, ranks: float | str) -> Plan:
    """The same plan for another number of ranks."""
    ranks, slots = _count(ranks), sum(host.slots for host in plan.hosts)
    if plan.hosts and ranks > slots:
        names = ", ".join(f"{host.name}:{host.slots}" for host in plan.hosts)
        fix = "give the hosts more slots, or ask for fewer ranks"
        raise LabError(f"{ranks} ranks", f"{names} have {slots} slots", fix)
    return replace(plan, ranks=ranks)


def _count(asked: float | str) -> int:
    try:
        ranks = int(asked) if isinstance(asked, str) else asked
        if isinstance(ranks, bool) or ranks != int(ranks):
            raise ValueError
        ranks = int(ranks)
    except (TypeError, ValueError):
        raise LabError(f"{asked!r} ranks", "not a whole number", "ask for a count such as 4") from None
    if not 1 <= ranks <= MAX_RANKS:
        raise LabError(f"{ranks} ranks", f"a lab has 1 to {MAX_RANKS} ranks", "ask for a count such as 4")
    return ranks
