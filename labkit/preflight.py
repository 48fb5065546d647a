"""Before ranks start on other hosts: is each of them as this machine is? If not, which one, and the fix."""

import os
import secrets
from pathlib import Path

from labkit import facts, hosts, launch
from labkit.errors import LabError


def check(plan: "launch.Plan", folder: Path) -> str:
    """Ask all hosts of `plan` at once; returns the address at which they see this machine.

    `folder` is the lab's own, which every host must see. Raises LabError naming the hosts and the fix.
    """
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(8))
    asked = {"token": str(token), "mpiexec": plan.mpi.mpiexec, "directory": os.getcwd()}
    here = facts.facts(folder=str(hosts.PACKAGE), **asked)
    placed = plan.placed()
    answers = hosts.probe(placed, hosts.PROBE_DEADLINE, **asked)
    total = {host.name: host.slots for host in plan.hosts}
    troubles = []
    for host, answer in zip(placed, answers, strict=True):
        found, fix = trouble(answer, here, folder.parent, total[host.name], host.slots)
        if found:
            troubles.append((f"{host.name}: {found}", fix))
    seen_at = sorted({answer.facts["sees_us_at"] for answer in answers if answer.facts})
    if not troubles and len(seen_at) > 1:
        fix = "start the notebook on a machine that all hosts reach through one network"
        troubles = [(f"the hosts see this machine at {' and '.join(seen_at)}", fix)]
    if troubles:
        wanted = f"{plan.ranks} ranks on {', '.join(host.name for host in placed)}"
        fixes = dict.fromkeys(fix for _, fix in troubles)
        raise LabError(wanted, "\n       ".join(found for found, _ in troubles), "; ".join(fixes))
    return seen_at[0]


def trouble(answer: hosts.Answer, here: dict, shared: Path, slots: int, wanted: int) -> tuple[str, str]:
    """Why ranks cannot start on this host, and the fix; ("", "") if they can.

    `here` is what this machine tells of itself; `shared` is the folder that all must see;
    `wanted` ranks are to fill some of `slots`.
    """
    there = answer.facts
    if there is None:
        return answer.found, answer.fix
    same = f"make the same environment on {answer.host} as here"
    mpi_here, mpi_there = (" ".join(launch.recognise(told["mpi_says"])) for told in (here, there))
    for what, mine, theirs in (
        ("Python", here["python"], there["python"]),
        ("torch", here["torch"], there["torch"]),
        ("MPI", mpi_here, mpi_there),
    ):
        if mine != theirs:
            return f"{what} is {theirs.strip() or 'missing'} there and {mine} here", same
    if not there["labkit"]:
        return f"there is no labkit in {hosts.PACKAGE}", same
    if there["token"] != here["token"]:
        return f"it does not see the files of {shared}", f"mount your home on {answer.host} from here"
    if not there["directory"]:
        return f"it has no directory {os.getcwd()}", f"mount it on {answer.host}, or start elsewhere"
    free = slots - there["running_ranks"]
    if free < wanted:
        return (
            f"{wanted} of its {slots} slots are wanted, and {there['running_ranks']} ranks of labs run there",
            f"stop those, wait for them, or give {answer.host} more slots",
        )
    return "", ""
