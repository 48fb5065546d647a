"""A lab is about to start: refuse this machine, or hosts, on which it could not, each with the fix."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import psutil

from labkit import LabError
from labkit.launch import Plan
from labkit.launch.hosts import facts
from labkit.launch.preflight import judge
from labkit.launch.preflight.ask import ask

RANK, LAB = 75e6, 150e6
"""Bytes that a rank takes for itself, and all else of a lab; measured after a backward pass."""
HUB_LIMIT = "MEM_LIMIT"
"""In which a JupyterHub says how many bytes a learner may have."""


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


def require_memory(plan: Plan) -> None:
    """LabError if the ranks of `plan` would have the kernel end programs, this learner's or all."""
    wanted = LAB + plan.ranks * RANK
    for free, whose in ((facts.free_memory(), "this machine"), (_left_at_hub(), "your server at the hub")):
        if 0 < free < wanted:
            found = (
                f"of the memory of {whose} {free / 1e9:.1f} GB are free, and they take {wanted / 1e9:.1f} GB"
            )
            fix = "end notebooks and programs that you do not need, or start fewer ranks"
            raise LabError(f"{plan.ranks} ranks", found, fix)


def _left_at_hub() -> int:
    """Bytes that a JupyterHub lets this learner have beside those in use; 0 where there is no such limit."""
    limit = os.environ.get(HUB_LIMIT, "")
    if not limit.isdigit():
        return 0
    used = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # somebody else's, or it has just ended
            if process.uids().real == os.getuid():
                used += process.memory_full_info().pss
    return max(1, int(limit) - used)


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
