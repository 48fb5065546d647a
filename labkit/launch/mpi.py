"""The MPI of an environment: which it is, and what it wants to be told.

The quirks of each MPI live here and nowhere else.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labkit import LabError
from labkit.launch.hosts import ssh
from labkit.launch.hosts.names import Host

_NOWHERE = "/nonexistent/topology.xml"
"""Where ranks find no description of their machine, and look at it themselves.

Hydra would write one to /tmp, and leave it there if it is killed.
"""


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
            "mpich": {"HWLOC_XMLFILE": _NOWHERE},
            "openmpi": oversubscribe | (as_root if os.geteuid() == 0 else {}),
            "impi": {"I_MPI_PIN": "0"},  # it would pin ranks to cores, several to one
        }[self.name]

    def on_one_machine(self, folder: Path) -> dict[str, str]:
        """What makes the ranks of one machine talk through its memory alone, and no port be open for them.

        The launcher's own files lie in `folder`.
        """
        return {
            "mpich": {"UCX_TLS": "self,sysv"},
            "openmpi": {"OMPI_MCA_btl": "self,sm", "PRTE_MCA_prte_tmpdir_base": str(folder)},
            "impi": {},  # it does so by itself
        }[self.name]

    def under_srun(self) -> dict[str, str]:
        """What keeps a rank's address short enough for Slurm; what the user has set goes first.

        Slurm's reader of PMI has no room for a line with a value of 1,024 bytes, which MPICH takes to be
        allowed (https://github.com/pmodels/mpich/issues/6924). Over UCX it sends that much wherever the
        memory behind an address is not empty; over libfabric (OFI) no line is longer than 100.
        """
        known = {"mpich": {"MPIR_CVAR_CH4_NETMOD": "ofi"}}.get(self.name, {})
        return {name: os.environ.get(name, value) for name, value in known.items()}

    def local_options(self) -> list[str]:
        """What keeps mpiexec on this machine: Hydra would follow HYDRA_HOST_FILE, or Slurm's variables."""
        return ["-launcher", "fork", "-hosts", "localhost"] if self.name == "mpich" else []

    def hostfile(self, placed: tuple[Host, ...]) -> str:
        """The hosts and how many ranks each gets, as this MPI reads it; they are filled in this order."""
        form = "{0.name} slots={0.slots}\n" if self.name == "openmpi" else "{0.name}:{0.slots}\n"
        return "".join(map(form.format, placed))

    def remote_options(
        self, hostfile: Path, shell: Path, address: str, variables: Iterable[str]
    ) -> tuple[list[str], dict[str, str]]:
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
            ssh.interface(address),
            "-genvlist",
            ",".join(variables),
        ]
        return options, {prefix: "ssh", f"{prefix}_EXEC": str(shell)}

    def died_first(self, log: str) -> tuple[int, str, str]:
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


_SIGNS = (  # what `mpiexec --version` prints; Intel's is a Hydra too, so it is asked for first
    ("impi", r"Intel\(R\) MPI Library.*?Version (\S+)"),
    ("mpich", r"HYDRA build details:.*?Version:\s+(\S+)"),
    ("openmpi", r"(?:Open MPI|OpenRTE|PRTE|prterun)\D*(\d\S*)"),
)


def find_mpi(name: str = "auto") -> MPI:
    """The MPI of this environment: its `mpiexec` beside the interpreter, or else on PATH."""
    one_of("MPI", name, ("auto", *(known for known, _ in _SIGNS)))
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


def one_of(what: str, asked: str, known: tuple[str, ...]) -> None:
    """LabError unless what was asked is one of those that labkit knows."""
    if asked not in known:
        raise LabError(f"{what} {asked!r}", "labkit does not know it", f"use one of {', '.join(known)}")
