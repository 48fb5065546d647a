"""Why a lab's ranks ended: from the keeper's note, mpiexec's report, and what the ranks themselves wrote.

When one rank has died mpiexec ends the others, and on a busy machine its report may name one of those: so
`FirstDeath` watches which process on this machine ended first.
"""

import os
import select
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from labkit.launch import Plan, keeper, processes, slurm
from labkit.launch.ranks import Rank

_REPORT = "mpiexec.log"


def keep_report(file: Path) -> None:
    """Keep what mpiexec writes to that file, under a second name.

    ipyparallel removes it when mpiexec ends: in a notebook before anybody has read who died.
    """
    with suppress(FileNotFoundError):  # mpiexec has ended already
        os.link(file, file.with_name(_REPORT))


def last_lines(folder: Path, lines: int = 15) -> str:
    """What the ranks of the lab in that folder last wrote outside of cells; mpiexec's report is the end."""
    logs = [*sorted(folder.glob("log/ipengine-rank*.log")), *folder.glob(f"log/{_REPORT}")]
    text = "\n".join(path.read_text(errors="replace") for path in logs)
    return "\n".join(text.strip().splitlines()[-lines:]) or "(their log is empty)"


def cause_of_death(plan: Plan, folder: Path, ranks: tuple[Rank, ...], first: int | None = None) -> str:
    """Who died first and how, as far as mpiexec tells; `first` is that rank's pid if it is known."""
    missed = _missed(folder)
    if missed == ["the controller"]:
        return "the controller died"
    if lost := [name for name in missed if name.startswith("host ")]:
        return f"{' and '.join(lost)} cannot be reached any more: is it up, and the network between?"
    _await_report(folder)
    if plan.launcher == "slurm":
        rank, how = slurm.died_first(last_lines(folder, 200))
        return f"{ranks[rank]} died: {how}" if rank >= 0 else "srun died, and the ranks with it"
    pid, host, how = plan.mpi.died_first(last_lines(folder, 200))
    dead = [r for r in ranks if r.pid == pid]
    dead = [r for r in dead if r.host == host] or dead  # two hosts may have a process of that number
    if not dead:
        return "mpiexec died, and the ranks with it"
    dead = [r for r in ranks if r.pid == first] or dead
    return f"{dead[0]} died: {how}"


def _missed(folder: Path) -> list[str]:
    """Which of the processes that a lab needs are gone, or which hosts."""
    noted = folder / keeper.GONE
    if noted.exists():  # the keeper ends what is left, so by now all may be gone
        return noted.read_text().splitlines()
    return [name for name, process in keeper.vital(folder).items() if not processes.is_alive(process)]


def _await_report(folder: Path) -> None:
    """mpiexec writes it when it has ended the other ranks, and then ends."""
    deadline = time.monotonic() + 1.0
    while processes.is_alive(keeper.vital(folder)["mpiexec"]) and time.monotonic() < deadline:
        time.sleep(0.02)


class FirstDeath(threading.Thread):
    """Waits, without using the processor, for the first of these processes to end; `pid` is then set.

    However late it wakes up: the kernel keeps the ends in their order. It stays None while all live, and
    where the system has no pidfd.
    """

    def __init__(self, processes: Sequence[psutil.Process]):
        super().__init__(name="labkit-first-death", daemon=True)
        self.pid: int | None = None
        self._of = _descriptors(processes)
        if self._of:
            self._ends = select.epoll()
            for descriptor in self._of:
                self._ends.register(descriptor, select.EPOLLIN)
            self.start()

    def run(self) -> None:
        [(first, _)] = self._ends.poll(maxevents=1)  # the head of the kernel's list; `poll` has no order
        self.pid = self._of[first]
        self._ends.close()
        for descriptor in self._of:
            os.close(descriptor)


def _descriptors(processes: Sequence[psutil.Process]) -> dict[int, int]:
    """A pidfd for each; none at all if one cannot be had."""
    found: dict[int, int] = {}
    try:
        for process in processes:
            found[os.pidfd_open(process.pid)] = process.pid
            if not process.is_running():  # the number may be another's by now
                raise ProcessLookupError(process.pid)
    except (AttributeError, OSError):
        for descriptor in found:
            os.close(descriptor)
        return {}
    return found
