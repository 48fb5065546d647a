"""What one learner may take of the machine: memory, processors, processes.

As root the kernel keeps the limits, by a control group for each learner. Without root the hub looks at what
is in use, and at too much memory ends the largest process, as the kernel would; processors are shared as they
come.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

GROUPS = Path("/sys/fs/cgroup")
PERIOD = 100_000
"""Microseconds in which processors are given out."""
CONTROLLERS = ("memory", "cpu", "pids")


@dataclass(frozen=True)
class Limits:
    """Bytes of memory, processors, and processes and threads; 0: as many as there are."""

    memory: int = 0
    processors: float = 0.0
    processes: int = 0

    def as_files(self, is_unified: bool) -> dict[str, str]:
        """What a control group is told, by the names of its files: of the second version, or of the first."""
        quota = int(self.processors * PERIOD)
        memory, cpu = (
            ("memory.max", "cpu.max") if is_unified else ("memory.limit_in_bytes", "cpu.cfs_quota_us")
        )
        files = {
            memory: str(self.memory) if self.memory else "",
            "memory.swap.max" if is_unified else "": "0" if self.memory else "",
            cpu: (f"{quota} {PERIOD}" if is_unified else str(quota)) if quota else "",
            "pids.max": str(self.processes) if self.processes else "",
        }
        return {name: value for name, value in files.items() if name and value}


class Group:
    """The control group of one learner, below the hub's own."""

    def __init__(self, name: str, limits: Limits):
        self._is_unified = (GROUPS / "cgroup.controllers").exists()
        parents = (_own(""),) if self._is_unified else tuple(map(_own, CONTROLLERS))
        self.folders = [parent / f"labkit-{name}" for parent in dict.fromkeys(parents)]
        if self._is_unified:
            _hand_down(parents[0])
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
        for file, value in limits.as_files(self._is_unified).items():
            for folder in self.folders:
                if (folder / file).exists():
                    (folder / file).write_text(value)

    def join(self) -> None:
        """This process, and all that it begins, belong to the learner from now on."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> bool:
        """Whether it is gone, which it can be when nothing runs in it any more."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self.folders)


def can_group() -> bool:
    """Whether this process can make control groups."""
    try:
        Group(f"try-{os.getpid()}", Limits()).remove()
    except OSError:
        return False
    return True


def _own(controller: str) -> Path:
    """The folder of the group that this process is in; "" where one tree has all controllers."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            found = GROUPS / controller / path.strip("/")
            return (
                (found.parent if found.name == "labkit-hub-itself" else found)
                if found.is_dir()
                else GROUPS / controller
            )
    return GROUPS / controller


def _hand_down(parent: Path) -> None:
    """A group of the second version may have processes or groups with limits below it, not both."""
    told = parent / "cgroup.subtree_control"
    if not set(CONTROLLERS) <= set(told.read_text().split()):
        own = parent / "labkit-hub-itself"
        own.mkdir(exist_ok=True)
        for pid in (parent / "cgroup.procs").read_text().split():
            (own / "cgroup.procs").write_text(pid)
        told.write_text(" ".join(f"+{controller}" for controller in CONTROLLERS))


def tree(pid: int) -> list[psutil.Process]:
    """A process, and all that it has begun."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def listens(pid: int, port: int) -> bool:
    """Whether the server in the place that this process holds listens there; also if nobody may know."""
    for process in tree(pid)[2:3]:
        try:
            listening = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        except psutil.AccessDenied:
            return True
        except psutil.Error:  # it has just ended
            continue
        if any(c.laddr.port == port for c in listening):
            return True
    return False


def memory(processes: Iterable[psutil.Process]) -> dict[psutil.Process, int]:
    """Bytes that each of them takes, where what they share is divided among those that share it."""
    found = {}
    for process in processes:
        with suppress(psutil.Error):  # it has just ended
            found[process] = _proportional(process.pid)
    return found


def end_largest(used: dict[psutil.Process, int], limit: int) -> psutil.Process | None:
    """End the process that takes most, if all together take more than `limit`; which one it was."""
    if sum(used.values()) <= limit:
        return None
    largest = max(used, key=used.__getitem__)
    with suppress(psutil.Error):
        largest.kill()
    return largest


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
