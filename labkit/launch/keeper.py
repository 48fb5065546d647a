"""A small process that ends what a `kill -9` would leave: of the owner, of the controller, of mpiexec.

It has nothing to do but look twice a second; when one of those is gone, or a shared lab has been
idle for long, it ends the lab's processes, those on other hosts too. It imports neither torch nor
ipyparallel.
"""

import math
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from labkit import LabError
from labkit.launch import living, mpi_files, private, processes, slurm
from labkit.launch.hosts.watchdog import Watchdog

WATCHED = "watched"
"""The file in the lab's folder that names what is vital to it, once that has started."""
GONE = "gone"
"""The file in which the keeper says which of these, or which hosts, it missed, before it ends the rest."""
ENDED_BY = "ended by "
"""How that file begins if a notebook ended the lab; its name follows."""
OWNER = "owner"
"""The file that names the process which the lab must not outlive."""
VITAL = ("the controller", "mpiexec", "hydra_pmi_proxy")
"""What a lab is dead without; the last holds the ranks for mpiexec, where that is Hydra's."""
SPARE = "spare"
"""The file that names the spare set of ranks, which is suspended: nobody there watches its keeper."""
SELF = "keeper"
"""The file that names the keeper."""
HOLDER = "holder"
"""The file that a shared lab's notebook touches with every cell; absent if the lab is not shared."""
IDLE = 3600.0
"""Seconds after which a shared lab that no cell was run on is ended."""
HOST_DEADLINE = 3.0
"""Seconds that hosts are given to end the lab's processes there."""


def main(lab_id: str, path: str, *hosts: str) -> None:
    """Wait for one of the ends of a lab, then end its processes, here and on `hosts`."""
    folder = Path(path)
    watchdogs = [Watchdog(host, lab_id) for host in hosts]

    def told(*_: object) -> None:
        if not watchdogs and not (folder / GONE).exists():
            os._exit(1)  # the lab goes on, with another keeper
        sys.exit()  # an end like the others: who asked may be ended before it has ended the rest

    signal.signal(signal.SIGTERM, told)
    missed: list[str] = []
    try:
        while has_owner(folder) and not missed and idle_for(folder / HOLDER) <= IDLE:
            time.sleep(0.5)
            missed = [f"host {watchdog.host}" for watchdog in watchdogs if not watchdog.is_heard()]
            missed += _missed(folder / WATCHED)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for watchdog in watchdogs:
            watchdog.end()
        with suppress(OSError):
            if folder.joinpath(slurm.MARKER).exists():
                slurm.cancel(lab_id)
        with suppress(LabError, OSError):  # the folder is gone, or the disk is full or fails
            if not (folder / GONE).exists():
                private.write(folder / GONE, "\n".join(missed))
        end_processes(folder, spare=(os.getpid(),))
        for spare in (folder.with_name(name) for name in _identities(folder / SPARE)):
            if not has_owner(spare):
                end_processes(spare)
                shutil.rmtree(spare, ignore_errors=True)
        deadline = time.monotonic() + HOST_DEADLINE
        for watchdog in watchdogs:
            watchdog.wait(max(0.0, deadline - time.monotonic()))
        if not has_owner(folder) or (folder / HOLDER).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _missed(watched: Path) -> list[str]:
    return [name for name, p in zip(VITAL, noted(watched), strict=False) if not living.is_alive(p)]


def has_owner(folder: Path) -> bool:
    """Whether the process lives that the lab must not outlive."""
    return all(map(living.is_alive, noted(folder / OWNER) or [None]))


def note(file: Path, *identities: str) -> None:
    """Write down which processes play a part, all at once for whoever reads."""
    private.write(file, "\n".join(identities))


def noted(file: Path) -> list[psutil.Process | None]:
    """The processes written down in a file, None for each that is gone."""
    return [living.parse(identity) for identity in _identities(file)]


def _identities(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except FileNotFoundError:
        return []


def watched(folder: Path) -> dict[str, str]:
    """The identities of the processes without which a lab is dead, by name; "" of what has not started."""
    return dict(zip(VITAL, _identities(folder / WATCHED) or ["", ""], strict=False))


def vital(folder: Path) -> dict[str, psutil.Process | None]:
    """Those processes; None for one that is gone, or has not started."""
    return {name: living.parse(identity) if identity else None for name, identity in watched(folder).items()}


def all_vital_live(folder: Path) -> bool:
    """Whether the lab of that folder runs; mpiexec ends when any rank has."""
    return all(map(living.is_alive, vital(folder).values()))


def end(folder: Path) -> None:
    """End that lab, whoever has it; on other hosts its keeper does it, when it is told to end."""
    keepers = processes.of_lab(folder.name, module="labkit.launch.keeper")
    processes.end(keepers, grace=HOST_DEADLINE + 2.0)
    if folder.joinpath(slurm.MARKER).exists():
        slurm.cancel(folder.name)
    end_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


def end_processes(folder: Path, grace: float = 1.0, spare: tuple[int, ...] = ()) -> None:
    """Of the lab of that folder, here, and with them what their MPI has made, though they may be dead."""
    begun = math.inf
    for path in folder.glob("*"):
        with suppress(OSError):  # it is gone
            begun = min(begun, path.stat().st_ctime)
    processes.end_lab(folder.name, grace, spare)
    mpi_files.remove(mpi_files.orphans(begun))


def idle_for(file: Path) -> float:
    """Seconds since the last cell of a shared lab."""
    return time.time() - file.stat().st_mtime if file.exists() else 0.0


if __name__ == "__main__":
    main(*sys.argv[1:])
