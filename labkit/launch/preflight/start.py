"""A lab is about to start on hosts: refuse those on which it could not, each with the fix."""

from pathlib import Path

from labkit import LabError
from labkit.launch import Plan
from labkit.launch.preflight import judge
from labkit.launch.preflight.ask import ask


def require_hosts(plan: Plan, shared: Path) -> str:
    """Look at all hosts of `plan` at once; returns the address at which they see this machine.

    `shared` is a folder that every host must see. Raises LabError naming the hosts and the fix.
    """
    placed = plan.placed()
    here, answers = ask(placed, plan.mpi.mpiexec, shared)
    whole = {host.name: host for host in plan.hosts}
    refused = []
    for host, answer in zip(placed, answers, strict=True):
        checks = judge.of_host(whole[host.name], answer, here, wanted=host.slots)
        refused += [check for check in checks if check.refusal][:1]  # another fault may be its consequence
    found = [f"{check.host}: {check.refusal}" for check in refused]
    fixes = [check.fix for check in refused]
    seen_at = sorted({answer.facts["sees_us_at"] for answer in answers if answer.facts})
    if not refused and len(seen_at) > 1:
        found = [f"the hosts see this machine at {' and '.join(seen_at)}"]
        fixes = ["start the notebook on a machine that all hosts reach through one network"]
    if found:
        wanted = f"{plan.ranks} ranks on {', '.join(host.name for host in placed)}"
        raise LabError(wanted, "\n       ".join(found), "; ".join(dict.fromkeys(fixes)))
    return seen_at[0]
