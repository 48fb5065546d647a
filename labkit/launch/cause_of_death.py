"""Why a lab's ranks ended: from the keeper's note, what ranks and witnesses said, and mpiexec's report."""

import os
import time
from contextlib import suppress
from pathlib import Path

from labkit.launch import Plan, endings, keeper, living, slurm, witness
from labkit.launch.ranks import Rank

_REPORT = "mpiexec.log"
_ENDED_BY_ITSELF = "[mpiexec@"
"""What Hydra's mpiexec says where its proxy has gone; one that was ended says nothing."""
REPORT_DEADLINE = 5.0
"""Seconds that a crowded machine may take to say which rank ended."""


def keep_report(file: Path) -> None:
    """Keep what mpiexec writes to that file, under a second name.

    ipyparallel removes it when mpiexec ends: in a notebook before anybody has read who died.
    """
    with suppress(FileNotFoundError):  # mpiexec has ended already
        os.link(file, file.with_name(_REPORT))


def last_lines(folder: Path, lines: int = 15) -> str:
    """What the ranks of the lab in that folder last wrote outside of cells; mpiexec's report is the end."""
    patterns = ("log/forkserver.log", "log/ipengine-rank*.log", f"log/{_REPORT}")
    logs = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    text = "\n".join(path.read_text(errors="replace") for path in logs)
    return "\n".join(text.strip().splitlines()[-lines:]) or "(their log is empty)"


def controllers_last_line(folder: Path) -> str:
    """What the controller of the lab in that folder said, if it ended before the ranks; "" if it did not."""
    if _missed(folder) != ["the controller"]:
        return ""
    said = "\n".join(path.read_text(errors="replace") for path in folder.glob("log/ipcontroller-*.log"))
    return next(iter(reversed(said.strip().splitlines())), "nothing")


def cause_of_death(plan: Plan, folder: Path, ranks: tuple[Rank, ...]) -> str:
    """Who died first, and how; or which notebook ended them."""
    missed = _missed(folder)
    if ended := [words for words in missed if words.startswith(keeper.ENDED_BY)]:
        return f"they were {ended[0]}"
    if missed == ["the controller"]:
        return "the controller died"
    if lost := [name for name in missed if name.startswith("host ")]:
        return f"{' and '.join(lost)} cannot be reached any more: is it up, and the network between?"
    log = _whole_report(folder, 1.0 if missed == ["hydra_pmi_proxy"] else REPORT_DEADLINE)
    told = _first(ranks, endings.first(log)) or _first(ranks, endings.first(_noted(folder)))
    dead, how = told or _as_reported(plan, ranks, log)
    if dead:
        return f"{dead} died: {how}"
    if witness.ALONE in log:
        return "the process from which the ranks were forked died, and they with it"
    if missed == ["hydra_pmi_proxy"] or ("hydra_pmi_proxy" in missed and _ENDED_BY_ITSELF in log):
        return "hydra_pmi_proxy died, which holds the ranks for mpiexec"
    gone = [r for r in ranks if not r.process()]
    if gone and not plan.is_remote and living.is_alive(keeper.vital(folder)["mpiexec"]):
        return f"{' and '.join(map(str, gone))} died, and nobody said how"
    return f"{'srun' if plan.launcher == 'slurm' else 'mpiexec'} died, and the ranks with it"


def _first(ranks: tuple[Rank, ...], ending: endings.Ending | None) -> tuple[Rank, str] | None:
    """The rank that was said to have ended."""
    if ending is None:
        return None
    if 0 <= ending.rank < len(ranks):
        return ranks[ending.rank], ending.how
    dead = _of_process(ranks, ending.pid, ending.host)
    return (dead, ending.how) if dead else None


def _as_reported(plan: Plan, ranks: tuple[Rank, ...], log: str) -> tuple[Rank | None, str]:
    """The rank that MPI's launcher names: one of the dead, which need not have been the first."""
    if plan.launcher == "slurm":
        rank, how = slurm.died_first(log)
        return (ranks[rank] if rank >= 0 else None), how
    pid, host, how = plan.mpi.died_first(log)
    return _of_process(ranks, pid, host), how


def _of_process(ranks: tuple[Rank, ...], pid: int, host: str) -> Rank | None:
    dead = [r for r in ranks if r.pid == pid]
    dead = [r for r in dead if r.host == host] or dead  # two hosts may have a process of that number
    return dead[0] if dead else None


def _missed(folder: Path) -> list[str]:
    """Which of the processes that a lab needs are gone, or which hosts."""
    noted = folder / keeper.GONE
    if noted.exists():  # the keeper ends what is left, so by now all may be gone
        return noted.read_text().splitlines()
    return [name for name, process in keeper.vital(folder).items() if not living.is_alive(process)]


def _noted(folder: Path) -> str:
    """What the fork server has noted: where mpiexec ends at once it may take with it what others said."""
    noted = folder / endings.NOTED
    return noted.read_text() if noted.exists() else ""


def _whole_report(folder: Path, seconds: float) -> str:
    """What ranks and launcher wrote: the latter has ended the other ranks when it ends."""
    deadline = time.monotonic() + seconds
    while not endings.first(log := last_lines(folder, 200)) and time.monotonic() < deadline:
        if not living.is_alive(keeper.vital(folder)["mpiexec"]):
            return last_lines(folder, 200)
        time.sleep(0.02)
    return log
