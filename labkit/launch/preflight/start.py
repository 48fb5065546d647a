"""A lab is about to start: refuse this machine, or hosts, on which it could not, each with the fix."""

import socket
from pathlib import Path

from labkit import LabError
from labkit.launch import Plan
from labkit.launch.hosts import facts
from labkit.launch.preflight import judge
from labkit.launch.preflight.ask import ask


def require_loopback() -> None:
    """LabError if this machine cannot talk to itself."""
    with socket.socket() as end:
        try:
            end.bind(("127.0.0.1", 0))
        except OSError as error:
            fix = "ip link set lo up; ip addr add 127.0.0.1/8 dev lo"
            raise LabError("a lab", f"this machine has no IPv4 loopback, 127.0.0.1 ({error})", fix) from None


def require_shared_memory(plan: Plan) -> None:
    """LabError if the ranks of `plan` would find too little shared memory on this machine."""
    told = {"free_shared_memory": facts.free_shared_memory()}
    check = judge.shared_memory(judge.HERE, told, plan.mpi.name, plan.ranks)
    if check.fault:
        raise LabError(f"{plan.ranks} ranks on {check.host}", check.refusal, check.fix)


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
