"""A plan brought to life: keeper, controller, mpiexec and ranks, and their end."""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

import ipyparallel as ipp

from labkit import LabError
from labkit.launch import Plan, keeper, private, processes, runtime, slurm
from labkit.launch.cluster import START_DEADLINE, Start
from labkit.launch.interrupts import interrupts_held
from labkit.launch.keeping import Keeping
from labkit.launch.preflight import start
from labkit.launch.runtime import WHERE, with_room


def this_notebook() -> str:
    """What other notebooks call the one that this process runs."""
    return Path(os.environ.get("JPY_SESSION_NAME", "a notebook")).name


def connected(folder: Path) -> ipp.Client | None:
    """A client of the running lab in that folder, None if nobody answers there."""
    try:
        return ipp.Client(str(folder / "security" / "ipcontroller-client.json"))
    except (OSError, RuntimeError, ValueError):  # the controller is stopped, or has just ended
        return None


class Engines:
    """The processes of one lab. `client` talks to the ranks.

    `address` is where other hosts reach this one, "" if all ranks are here.
    """

    def __init__(self, plan: Plan, folder: Path):
        self.plan, self.folder = plan, folder
        self.lab_id = folder.name
        self.address = ""
        self.client: ipp.Client | None = None
        self._keeping = Keeping(folder, tuple(host.name for host in plan.placed()))
        self._start: Start | None = None

    @classmethod
    def start(
        cls, plan: Plan, owner: str, folder: Path | None = None, patience: float = START_DEADLINE
    ) -> "Engines":
        """Start them all; `owner` is the identity of the process that they must not outlive."""
        engines = cls.prepare(plan, owner, folder)
        engines._start = Start(plan, engines.folder, engines.address, patience)
        try:
            with with_room():
                engines.client = engines._start.run()
        except BaseException:
            engines.stop()
            raise
        return engines

    @classmethod
    def prepare(cls, plan: Plan, owner: str, folder: Path | None = None) -> "Engines":
        """The keeper alone, with a folder; where ranks are to run has been looked at."""
        start.require_loopback()
        private.require_umask()
        with with_room():
            engines = cls(plan, folder or runtime.folder() / secrets.token_hex(4))
            engines.folder.mkdir(mode=0o700)
        try:
            with with_room():
                engines.belong_to(owner)
                private.write(engines.folder / WHERE, processes.here())
            if plan.hosts:
                engines.address = start.require_hosts(plan, runtime.RUNTIME)
            if plan.launcher == "slurm":
                engines.address = slurm.own_address_for_nodes()
                engines.folder.joinpath(slurm.MARKER).touch()
            if not plan.is_remote:
                start.require_shared_memory(plan)
                start.require_memory(plan)
            engines._keeping.start()
        except BaseException:
            engines.stop()
            raise
        return engines

    @classmethod
    def attach(cls, plan: Plan, folder: Path) -> "Engines | None":
        """Those of a running lab, or None if it does not run any more."""
        engines = cls(plan, folder)
        if not engines.is_alive():
            return None
        engines.client = connected(folder)
        if engines.client is None:
            return None
        return engines

    def belong_to(self, owner: str) -> None:
        """From now on they must not outlive that process."""
        keeper.note(self.folder / keeper.OWNER, owner)

    def is_alive(self) -> bool:
        """Whether all that is vital lives; mpiexec ends when any rank has."""
        return keeper.all_vital_live(self.folder)

    def stop(self) -> None:
        """End every process and remove the folder with the connection files, whole if it is begun."""
        with interrupts_held():
            self._stop()

    def _stop(self) -> None:
        if self.client is not None:
            self.client.close(linger=0)
        if self.folder.exists():
            with suppress(OSError, LabError):  # a full disk: it ends all the same
                keeper.note(self.folder / keeper.GONE, f"{keeper.ENDED_BY}{this_notebook()}")
        self._keeping.end()
        if self.plan.launcher == "slurm":
            slurm.cancel(self.lab_id)
        keeper.end_processes(self.folder, spare=(os.getpid(),))
        if self._start is not None:
            self._start.reap()
        shutil.rmtree(self.folder, ignore_errors=True)
