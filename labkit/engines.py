"""A plan brought to life: one ipyparallel controller and the plan's ranks, and their end."""

import logging
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import ipyparallel as ipp
import psutil
from jupyter_core.paths import jupyter_runtime_dir
from traitlets.config import Config

from labkit import keeper, processes
from labkit.errors import LabError
from labkit.launch import Plan

RUNTIME = Path(jupyter_runtime_dir(), "labkit")
"""Where each running lab has a folder of its own, private to the user, named by its id."""
START_DEADLINE = 120.0
"""Seconds until a start that has not succeeded is given up."""

_quiet = logging.getLogger("labkit.ipyparallel")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False

_CONTROLLER_ARGS = [
    "--usethreads",  # one process in place of nine
    "--HeartMonitor.period=200",  # milliseconds; a registration waits for a heartbeat
    "--HeartMonitor.max_heartmonitor_misses=100000",  # labkit watches the processes themselves
]


class Engines:
    """The processes of one lab: keeper, controller, mpiexec, ranks. `client` talks to the ranks."""

    def __init__(self, plan: Plan, folder: Path, patience: float = START_DEADLINE):
        self.plan, self.folder, self._patience = plan, folder, patience
        self.lab_id = folder.name
        self.client: ipp.Client | None = None
        self._keeper: subprocess.Popen | None = None

    @classmethod
    def start(
        cls, plan: Plan, owner: str, folder: Path | None = None, patience: float = START_DEADLINE
    ) -> "Engines":
        """Start them all; `owner` is the identity of the process that they must not outlive."""
        RUNTIME.mkdir(parents=True, exist_ok=True)
        engines = cls(plan, folder or RUNTIME / secrets.token_hex(4), patience)
        engines.folder.mkdir(mode=0o700)
        engines.belong_to(owner)
        engines._start_keeper()
        try:
            engines._start_cluster()
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
        engines.client = ipp.Client(str(folder / "security" / "ipcontroller-client.json"))
        return engines

    def belong_to(self, owner: str) -> None:
        """From now on they must not outlive that process."""
        keeper.note(self.folder / keeper.OWNER, owner)

    def stop(self) -> None:
        """End every process and remove the folder with the connection files."""
        if self.client is not None:
            self.client.close(linger=0)
        processes.end_lab(self.lab_id, spare=(os.getpid(),))
        if self._keeper is not None:
            self._keeper.wait(5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, lines: int = 15) -> str:
        """The last lines that the ranks wrote outside of cells."""
        text = "\n".join(p.read_text(errors="replace") for p in sorted(self.folder.glob("log/ipengine*.log")))
        return "\n".join(text.strip().splitlines()[-lines:]) or "(their log is empty)"

    def is_alive(self) -> bool:
        """Whether controller and mpiexec live; mpiexec ends when any rank has."""
        return all(processes.is_alive(p) for p in self._vital().values())

    def cause_of_death(self, ranks: dict[int, str]) -> str:
        """Who died first and how, as far as mpiexec tells; `ranks` names each rank's pid."""
        noted = self.folder / keeper.GONE
        missed = [name for name, process in self._vital().items() if not processes.is_alive(process)]
        if noted.exists():  # the keeper ends what is left, so by now both may be gone
            missed = noted.read_text().splitlines()
        if missed == ["the controller"]:
            return "the controller died"
        deadline = time.monotonic() + 1.0
        while processes.is_alive(self._vital()["mpiexec"]) and time.monotonic() < deadline:
            time.sleep(0.02)  # it writes its report when it has ended the others
        pid, how = self.plan.mpi.obituary(self.log(lines=200))
        return f"{ranks[pid]} died: {how}" if pid in ranks else "mpiexec died, and the ranks with it"

    def _vital(self) -> dict[str, psutil.Process | None]:
        found = keeper.noted(self.folder / keeper.WATCHED) or [None, None]
        return dict(zip(keeper.VITAL, found, strict=True))

    def _start_keeper(self) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "labkit.keeper", self.lab_id, str(self.folder)],
            env=os.environ | {processes.MARK: self.lab_id},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the owner must not reach it
        )

    def _start_cluster(self) -> None:
        deadline = time.monotonic() + self._patience
        config = Config()
        config.MPIEngineSetLauncher.mpi_cmd = [self.plan.mpi.mpiexec]
        config.MPIEngineSetLauncher.engine_cmd = self.plan.program()
        mark = {processes.MARK: self.lab_id}
        cluster = ipp.Cluster(
            engines="mpi",
            profile_dir=str(self.folder),
            cluster_id="",
            cluster_file="",
            config=config,
            load_profile=False,
            shutdown_atexit=False,  # `stop` and the keeper see to that
            send_engines_connection_env=False,  # ranks start beside the controller, not after it
            controller_args=_CONTROLLER_ARGS,
        )
        cluster.log = _quiet
        cluster.start_controller_sync(environment=mark)
        environment = mark | self.plan.environment()
        cluster.start_engines_sync(self.plan.ranks, environment=environment, engine_args=self._engine_args())
        vital = (cluster.controller.process, cluster.engine_set.process)
        keeper.note(self.folder / keeper.WATCHED, *map(processes.identity, vital))
        try:
            self.client = cluster.connect_client_sync()
        except (RuntimeError, TimeoutError):  # the keeper ends the controller when mpiexec has ended
            raise self._did_not_start() from None
        while len(self.client.ids) < self.plan.ranks:
            if not self.is_alive() or time.monotonic() > deadline:
                raise self._did_not_start()
            time.sleep(0.01)

    def _engine_args(self) -> list[str]:
        return [
            "--IPEngine.enable_nanny=False",  # signals go straight to the rank's pid
            "--IPEngine.max_heartbeat_misses=0",
            f"--IPEngine.wait_for_url_file={self._patience}",
            f"--IPEngine.timeout={self._patience}",
        ]

    def _did_not_start(self) -> LabError:
        came = len(self.client.ids) if self.client else 0
        how = f"{self._patience:.0f} s went by" if self.is_alive() else "mpiexec ended"
        return LabError(
            f"{self.plan.ranks} ranks with {self.plan.mpi.name} {self.plan.mpi.version}",
            f"{came} came up, then {how}; the ranks' last lines:\n{self.log()}",
            "mend what the last lines say, then start again",
        )
