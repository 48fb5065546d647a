"""Where ranks run and with which MPI: a plan that is checked before anything starts.

The quirks of each MPI live here and nowhere else.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from labkit import hosts as machines
from labkit import slurm
from labkit.errors import LabError
from labkit.hosts import Host

BACKENDS = ("auto", "mpi", "gloo")
DEVICES = ("auto", "cpu", "cuda")
LAUNCHERS = ("auto", "mpiexec", "slurm")
DEFAULT_RANKS = 4
MAX_RANKS = 256


@dataclass(frozen=True)
class MPI:
    """An MPI found on this machine: `name` is mpich, openmpi or impi."""

    name: str
    version: str
    mpiexec: str

    def environment(self) -> dict[str, str]:
        """What this MPI's launcher needs to be told, to run more ranks than cores, also as root."""
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        oversubscribe = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
        return {
            "mpich": {},
            "openmpi": oversubscribe | (as_root if os.geteuid() == 0 else {}),
            "impi": {"I_MPI_PIN": "0"},  # it would pin ranks to cores, several to one
        }[self.name]

    def hostfile(self, placed: tuple[Host, ...]) -> str:
        """The hosts and how many ranks each gets, as this MPI reads it; they are filled in this order."""
        form = "{0.name} slots={0.slots}\n" if self.name == "openmpi" else "{0.name}:{0.slots}\n"
        return "".join(map(form.format, placed))

    def across(self, hostfile: Path, shell: Path, address: str, variables: Iterable[str]):
        """Options and environment with which mpiexec starts ranks on hosts, through the program `shell`.

        The hosts reach mpiexec at `address`, which Open MPI finds out itself; the ranks get `variables`
        of its environment.
        """
        if self.name == "openmpi":
            forwarded = [word for name in variables for word in ("-x", name)]
            return ["--hostfile", str(hostfile), *forwarded], {
                "PRTE_MCA_plm_ssh_agent": str(shell),
                "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": "slot",  # fill a host's slots, then the next
            }
        prefix = {"mpich": "HYDRA_LAUNCHER", "impi": "I_MPI_HYDRA_BOOTSTRAP"}[self.name]
        options = [
            "-f",
            str(hostfile),
            "-iface",
            machines.interface(address),
            "-genvlist",
            ",".join(variables),
        ]
        return options, {prefix: "ssh", f"{prefix}_EXEC": str(shell)}

    def obituary(self, log: str) -> tuple[int, str, str]:
        """Pid and host of the rank that died first, and how, from what mpiexec wrote; else (0, "", "")."""
        if self.name == "openmpi":
            found = re.search(r"PID (\d+) on node (\S+) (?:exited on|terminated)(?: with)? ([^\n]+)", log)
            return (int(found[1]), found[2], found[3].rstrip(". ")) if found else (0, "", "")
        pid = re.search(r"PID (\d+) RUNNING AT (\S+)", log)
        code = re.search(r"^(=?) *EXIT CODE: (\d+)", log, re.M)
        known = re.search(r"EXIT STRING: (.+)", log)
        if not pid or not code:
            return 0, "", ""
        how = f"exit code {code[2]}"
        if (
            code[1] and int(code[2]) < signal.NSIG and (name := signal.strsignal(int(code[2])))
        ):  # from several hosts Hydra tells no more
            how += f", or {name} (signal {code[2]})"
        return int(pid[1]), pid[2], known[1] if known else how


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
        return [self.mpi.mpiexec]

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


def plan(ranks=None, *, hosts=None, launcher=None, backend="auto", mpi="auto", device="auto") -> Plan:
    """Check what was asked against what is here; raises LabError before anything is started.

    A count that the caller names wins; the environment (`LABKIT_RANKS`, `LABKIT_LAUNCHER`,
    `LABKIT_BACKEND`, `LABKIT_HOSTS`) fills in what is left open.
    """
    hosts = machines.parse(hosts or os.environ.get("LABKIT_HOSTS") or "")
    launcher = launcher or os.environ.get("LABKIT_LAUNCHER") or "auto"
    _one_of("launcher", launcher, LAUNCHERS)
    if backend == "auto":
        backend = os.environ.get("LABKIT_BACKEND") or "auto"
    _one_of("backend", backend, BACKENDS)
    _one_of("device", device, DEVICES)
    default = sum(host.slots for host in hosts) or os.environ.get("LABKIT_RANKS") or DEFAULT_RANKS
    found, launcher = find_mpi(mpi), "mpiexec" if launcher == "auto" else launcher
    if launcher == "slurm":
        if hosts:
            raise LabError("hosts, and Slurm", "Slurm itself chooses the nodes", "leave out one of the two")
        slurm.require(found.name)
    return resized(Plan(1, found, backend, device, launcher, hosts), default if ranks is None else ranks)


def resized(plan: Plan, ranks) -> Plan:
    """The same plan for another number of ranks."""
    ranks, slots = _count(ranks), sum(host.slots for host in plan.hosts)
    if plan.hosts and ranks > slots:
        names = ", ".join(f"{host.name}:{host.slots}" for host in plan.hosts)
        fix = "give the hosts more slots, or ask for fewer ranks"
        raise LabError(f"{ranks} ranks", f"{names} have {slots} slots", fix)
    return replace(plan, ranks=ranks)


def _one_of(what: str, asked: str, known: tuple[str, ...]) -> None:
    if asked not in known:
        raise LabError(f"{what} {asked!r}", "labkit does not know it", f"use one of {', '.join(known)}")


def _count(asked) -> int:
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


_SIGNS = (  # what `mpiexec --version` prints; Intel's is a Hydra too, so it is asked for first
    ("impi", r"Intel\(R\) MPI Library.*?Version (\S+)"),
    ("mpich", r"HYDRA build details:.*?Version:\s+(\S+)"),
    ("openmpi", r"(?:Open MPI|OpenRTE|PRTE|prterun)\D*(\d\S*)"),
)


def find_mpi(name: str = "auto") -> MPI:
    """The MPI of this environment: its `mpiexec` beside the interpreter, or else on PATH."""
    _one_of("MPI", name, ("auto", *(known for known, _ in _SIGNS)))
    here = Path(sys.prefix, "bin", "mpiexec")
    mpiexec = str(here) if here.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        wanted = "mpich" if name == "auto" else name
        raise LabError(
            "ranks started by MPI",
            "no mpiexec in this environment nor on PATH",
            f"pip install 'labkit[{wanted}]'",
        )
    found = _recognise(mpiexec)
    if name not in ("auto", found.name):
        raise LabError(
            f"MPI {name!r}",
            f"{found.name} {found.version}: an environment holds one MPI",
            f"make an environment of its own with pip install 'labkit[{name}]'",
        )
    return found


def _recognise(mpiexec: str) -> MPI:
    try:
        done = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=20)
        text = done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        text = str(error)
    name, version = recognise(text)
    if name:
        return MPI(name, version, mpiexec)
    raise LabError(
        f"an MPI that labkit knows behind {mpiexec}",
        f"its --version says: {(text.strip() or 'nothing').splitlines()[0][:200]}",
        "pip install 'labkit[mpich]' in a fresh environment",
    )


def recognise(says: str) -> tuple[str, str]:
    """Name and version of the MPI whose `mpiexec --version` says that; ("", "") if labkit knows none."""
    found = ((name, re.search(sign, says, re.DOTALL)) for name, sign in _SIGNS)
    return next(((name, match[1]) for name, match in found if match), ("", ""))
