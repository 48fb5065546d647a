"""What a lab needs when its ranks run on other hosts: a way to start them there."""

import os
from collections.abc import Iterable
from pathlib import Path

from labkit.launch import Plan
from labkit.launch.hosts import remote_shell

_FORWARDED = (
    "PATH LD_LIBRARY_PATH PYTHON LABKIT_ MPI4PY_ OMP_ MPICH_ I_MPI_ OMPI_ UCX_ FI_ GLOO_ NCCL_ TORCH_"
)
"""How the variables begin that ranks on hosts get of the owner's: they cross the network in clear text."""

_LOCAL = "HOME USER LOGNAME SHELL LANG LC_ TMPDIR SSH_AUTH_SOCK IPP_"
"""How those begin that mpiexec and its ssh need here."""


def start_options(
    plan: Plan, folder: Path, address: str, variables: Iterable[str]
) -> tuple[list[str], dict[str, str]]:
    """What mpiexec needs to start ranks on the plan's hosts: options, and environment.

    `folder` is the lab's own, `address` where hosts reach this machine; the ranks get `variables`.
    """
    hostfile, shell = folder / "hosts", folder / "ssh"
    hostfile.write_text(plan.mpi.hostfile(plan.placed()))
    shell.write_text(remote_shell.script(folder.name))
    shell.chmod(0o700)
    mine = [name for name in os.environ if name.startswith(tuple(_FORWARDED.split()))]
    names = dict.fromkeys([*variables, *mine, "IPP_CLUSTER_ID", "IPP_PROFILE_DIR"])
    return plan.mpi.remote_options(hostfile, shell, address, names)


def with_few_variables(command: list[str]) -> list[str]:
    """The command without most of the owner's variables: Hydra would send all that it has."""
    kept = tuple(_FORWARDED.split() + _LOCAL.split())
    unset = [word for name in os.environ if not name.startswith(kept) for word in ("-u", name)]
    return ["env", *unset, *command]
