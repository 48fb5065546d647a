"""Ranks under Slurm: one `srun` starts them, as a step of the allocation around it or as a job of its own.

Account, partition and time limit are Slurm's business: SLURM_ACCOUNT, SLURM_PARTITION, SLURM_TIMELIMIT.
"""

import os
import re
import shutil
import subprocess
import time

from labkit import LabError
from labkit.launch.hosts.ssh import own_address

WAIT = "LABKIT_SLURM_WAIT"
"""Names the seconds that a job may wait for nodes; 60 if it is not set."""
MARKER = "slurm"
"""The file in a lab's folder that says that its ranks are Slurm's to end."""
CANCEL_DEADLINE = 15.0
"""Seconds until a cancelled job must be gone."""
PMI = {"mpich": "pmi2"}
"""How srun tells the ranks of each MPI about each other."""


def require(mpi: str) -> None:
    """LabError if ranks with this MPI cannot be started by srun."""
    asked = f"ranks started by Slurm, with {mpi}"
    if not shutil.which("srun"):
        raise LabError(
            asked, "no srun on PATH", "start the notebook on a node of the cluster, or load its module"
        )
    if mpi not in PMI:
        fix = "use an environment with MPICH: pip install 'labkit[mpich]'"
        raise LabError(asked, f"labkit starts {', '.join(PMI)} alone by srun", fix)
    kinds = _said("srun", "--mpi=list")
    if PMI[mpi] not in kinds.split():
        fix = "ask the site for Slurm's pmi2 plugin (libpmi2)"
        raise LabError(asked, f"srun has no {PMI[mpi]}: {' '.join(kinds.split())}", fix)


def command(mpi: str, device: str, job: str) -> list[str]:
    """The start of the command that runs ranks; their number (-n) and program follow.

    Inside an allocation they share what is there, and from a login node they are a job called `job`.
    """
    inside = "SLURM_JOB_ID" in os.environ
    return [
        "srun",
        f"--job-name={job}",
        f"--mpi={PMI[mpi]}",
        f"--immediate={wait():g}",
        "--kill-on-bad-exit=1",  # as mpiexec does
        "--input=none",
        "--export=ALL",
        *(["--gpus-per-task=1"] if device == "cuda" else []),
        *(["--overlap", "--overcommit"] if inside else []),
    ]


def job(lab_id: str) -> str:
    """The name of a lab's job, or of its step in an allocation."""
    return f"labkit-{lab_id}"


def wait() -> float:
    """Seconds that a job may wait for nodes."""
    asked = os.environ.get(WAIT, "60")
    if not asked.isdigit() or int(asked) == 0:
        raise LabError(f"{WAIT}={asked}", "not a whole number of seconds", f"{WAIT}=60")
    return int(asked)


FIRST_NODE = """
first=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)
: "${MASTER_ADDR:=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')}"
export MASTER_ADDR
exec "$@"
"""
"""For sh on each rank: says where rank 0 is, which is known only when the nodes are."""


def own_address_for_nodes() -> str:
    """The address at which nodes see this one: that of the network on which Slurm's controller is."""
    told = re.search(r"SlurmctldHost\[0\]\s*=\s*(\S+?)(?:\((\S+)\))?\s", _said("scontrol", "show", "config"))
    if not told:
        raise LabError(
            "ranks started by Slurm", "its controller does not answer", "see what is wrong: scontrol ping"
        )
    return own_address(towards=told[2] or told[1])


def cancel(lab_id: str) -> None:
    """End a lab's job, or its step, and wait until it is gone."""
    deadline = time.monotonic() + CANCEL_DEADLINE
    while (found := _ids(job(lab_id))) and time.monotonic() < deadline:
        _said("scancel", *found)
        time.sleep(0.2)


def _ids(name: str) -> list[str]:
    """Jobs of that name, or else steps: they go with their job."""
    jobs = _said("squeue", "--me", "--noheader", f"--name={name}", "--format=%i").split()
    steps = (
        line.split()
        for line in _said("squeue", "--me", "--noheader", "--steps", "--format=%i %j").splitlines()
    )
    return jobs or [step[0] for step in steps if step[1:] == [name]]


def died_first(log: str) -> tuple[int, str]:
    """The rank that died first, and how, from what srun wrote; (-1, "") if it does not tell."""
    found = re.search(r"srun: error: \S+: task (\d+): (.+)", log)
    return (int(found[1]), found[2].strip()) if found else (-1, "")


def why_no_nodes(log: str) -> tuple[str, str]:
    """What srun found in place of nodes, and the fix; ("", "") if it had them."""
    refused = re.search(r"srun: error: Unable to (?:allocate resources|create step)[^:]*: (.+)", log)
    busy = re.search(
        r"srun: error: (Immediate execution impossible.*)|srun: .*(?:queued and waiting|step creation)", log
    )
    if refused and not re.search("busy|Timed out|timed out|unavailable|temporarily", refused[1]):
        return refused[1], "ask for what `sinfo` and `scontrol show partition` say that there is"
    if refused or busy:
        return (
            f"no nodes came free within {wait():g} s ({(refused or busy)[0]})",
            f"see `squeue`; wait, ask for fewer ranks, or for more time: {WAIT}=600",
        )
    return "", ""


def _said(*words: str) -> str:
    """What a command of Slurm prints."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=CANCEL_DEADLINE)
        return done.stdout + done.stderr if "--mpi=list" in words else done.stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
