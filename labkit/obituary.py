"""Why a lab's ranks ended: from the keeper's note, mpiexec's report, and what the ranks themselves wrote."""

import os
import time
from contextlib import suppress
from pathlib import Path

from labkit import keeper, processes, slurm
from labkit.launch import Plan
from labkit.ranks import Rank

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
        rank, how = slurm.obituary(last_lines(folder, 200))
        return f"{ranks[rank]} died: {how}" if rank >= 0 else "srun died, and the ranks with it"
    pid, host, how = plan.mpi.obituary(last_lines(folder, 200))
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
