"""One start of a plan's ranks: an ipyparallel controller, and what mpiexec shall start."""

import errno
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import ipyparallel as ipp
import psutil
from traitlets.config import Config

from labkit import LabError
from labkit.launch import (
    Plan,
    cause_of_death,
    channel,
    keeper,
    listeners,
    living,
    mpi_files,
    no_start,
    processes,
    remote,
    slurm,
    witness,
)
from labkit.launch.interrupts import interrupts_held
from labkit.launch.stopped import STOPPED_FOR, Standstill

START_DEADLINE = 120.0
"""Seconds until a start that has not succeeded is given up."""
ANSWER = 2.0
"""Seconds until the controller is asked again how to reach it and the ranks, if it lives."""
HALF_WRITTEN = 3.0
"""Seconds that the controller is given to finish the file that says how to reach it."""
LONGEST = 107
"""Bytes that the name of a Unix socket may have."""
LITTLE_ROOM = 1 << 16
"""Bytes of disk with which a start that failed has failed for want of them."""

_quiet = logging.getLogger("labkit.ipyparallel")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False

_CONTROLLER_ARGS = [
    "--usethreads",  # one process in place of one for each queue
    "--HeartMonitor.period=100",  # milliseconds; a registration waits for a heartbeat
    "--HeartMonitor.max_heartmonitor_misses=100000",  # labkit watches the processes themselves
]


def launcher(plan: Plan, folder: Path, address: str) -> tuple[list[str], list[str], dict[str, str]]:
    """What starts the ranks: a command; its options, which come after -n and the count; environment.

    `address` is where other hosts reach this one, if ranks are there.
    """
    options, environment = [], {processes.MARK: folder.name, "LABKIT_FOLDER": str(folder)}
    environment |= plan.environment()
    if plan.is_remote:
        environment |= {"LABKIT_NOTEBOOK": address, "LABKIT_LOGS": str(folder / "log")}
    else:
        environment |= plan.mpi.on_one_machine(folder)
    if plan.launcher == "slurm":
        environment |= plan.mpi.under_srun()
    if plan.hosts:
        options, more = remote.start_options(plan, folder, address, environment)
        environment |= more
    command = plan.command(slurm.job(folder.name))
    if plan.hosts:
        command = remote.with_few_variables(command)
    return command, options, environment


@dataclass
class Start:
    """Ranks of `plan` that come up in `folder`, within `patience` seconds."""

    plan: Plan
    folder: Path
    address: str
    patience: float = START_DEADLINE
    _forkserver: subprocess.Popen | None = None

    def __post_init__(self) -> None:
        is_spare = self.patience > START_DEADLINE  # those are put on hold while cells run
        self._standstill = Standstill(self.folder.name, self.patience if is_spare else STOPPED_FOR)

    def run(self) -> ipp.Client:
        """Start them, and wait for all. LabError if they do not come."""
        deadline = time.monotonic() + self.patience
        command, options, environment = launcher(self.plan, self.folder, self.address)
        cluster = self._cluster(command, options, self._program(environment))
        with interrupts_held():  # asyncio would tell of an exception that nobody has seen
            cluster.start_controller_sync(environment={processes.MARK: self.folder.name})
            cluster.start_engines_sync(
                self.plan.ranks, environment=environment, engine_args=self._engine_args()
            )
        cause_of_death.keep_report(Path(cluster.engine_set.output_file))
        self._watch(cluster)
        client = self._connected(cluster, deadline)
        while len(client.ids) < self.plan.ranks:
            if self._is_over(deadline):
                came = len(client.ids)
                client.close(linger=0)
                raise self._failure(came)
            time.sleep(0.01)
        self._watch(cluster, self.plan.ranks)
        if not self.plan.is_remote:
            _let_go(cluster.engine_set.process)
        return client

    def reap(self) -> None:
        """Wait for what was begun here and has been ended since."""
        if self._forkserver is not None:
            self._forkserver.wait(5)

    def _watch(self, cluster: ipp.Cluster, came: int = 0) -> None:
        """Have the keeper see to what the lab is dead without, as far as that has started."""
        controller, mpiexec = cluster.controller.process, cluster.engine_set.process
        try:
            vital = [living.identity(process) for process in (controller, mpiexec, *_proxies(mpiexec))]
        except psutil.NoSuchProcess:
            raise self._failure(came) from None
        keeper.note(self.folder / keeper.WATCHED, *vital)

    def _cluster(self, command: list[str], options: list[str], program: list[str]) -> ipp.Cluster:
        config = Config()
        config.MPIEngineSetLauncher.mpi_cmd, config.MPIEngineSetLauncher.mpi_args = command, options
        config.MPIEngineSetLauncher.engine_cmd = program
        config.ControllerLauncher.connection_info_timeout = ANSWER
        hosts = tuple(host.name for host in self.plan.placed())
        channel.secure(self.folder, self.address or "127.0.0.1", hosts)
        cluster = ipp.Cluster(
            engines="mpi",
            profile_dir=str(self.folder),
            cluster_id="",
            cluster_file="",
            config=config,
            load_profile=False,
            shutdown_atexit=False,  # `Engines.stop` and the keeper see to that
            send_engines_connection_env=False,  # ranks start beside the controller, not after it
            controller_args=_CONTROLLER_ARGS,
        )
        cluster.log = _quiet
        return cluster

    def _program(self, environment: dict[str, str]) -> list[str]:
        """What mpiexec starts as each rank: on this machine its witness, with a fork server to ask for it."""
        path = self.folder / "ranks"
        if self.plan.is_remote or sys.platform != "linux" or len(os.fsencode(path)) > LONGEST:
            return self.plan.program()
        log = self.folder / "log" / "forkserver.log"
        log.parent.mkdir(exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listening, log.open("w") as said:
            listening.bind(str(path))
            listening.listen(self.plan.ranks)
            command = ["labkit.rank.forkserver", str(listening.fileno()), str(self.plan.ranks)]
            files = {"stdout": said, "stderr": said, "pass_fds": [listening.fileno()]}
            self._forkserver = processes.begin(command, self.folder.name, environment, **files)
        return [sys.executable, "-I", "-S", witness.__file__, str(path)]

    def _connected(self, cluster: ipp.Cluster, deadline: float) -> ipp.Client:
        written = time.monotonic() + HALF_WRITTEN
        while True:
            try:
                with interrupts_held():
                    return cluster.connect_client_sync(timeout=ANSWER)
            except RuntimeError:  # the keeper ends the controller when mpiexec has ended
                raise self._failure() from None
            except TimeoutError:  # that has just happened, or it has much to do
                if self._is_over(deadline):
                    raise self._failure() from None
            except ValueError:  # the controller is just writing how to reach it, or cannot
                if time.monotonic() > written:
                    raise self._failure() from None
                time.sleep(0.05)

    def _is_over(self, deadline: float) -> bool:
        """Whether it is of no use to wait longer."""
        late = time.monotonic() > deadline
        return late or not keeper.all_vital_live(self.folder) or bool(self._standstill.reason())

    def _engine_args(self) -> list[str]:
        return [
            "--IPEngine.enable_nanny=False",  # signals go straight to the rank's pid
            "--IPEngine.max_heartbeat_misses=0",
            f"--IPEngine.wait_for_url_file={self.patience}",
            f"--IPEngine.timeout={self.patience}",
        ]

    def _failure(self, came: int = 0) -> LabError:
        """Why the ranks did not come."""
        if shutil.disk_usage(self.folder).free < LITTLE_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        said = cause_of_death.last_lines(self.folder)
        found, fix = slurm.why_no_nodes(said) if self.plan.launcher == "slurm" else ("", "")
        if found:
            return LabError(f"{self.plan.ranks} ranks started by Slurm", found, fix)
        asked = f"{self.plan.ranks} ranks with {self.plan.mpi.name} {self.plan.mpi.version}"
        if self._standstill.reason():
            return LabError(asked, self._standstill.reason(), "start again")
        known, fix = "", ""
        if not self.plan.is_remote:
            known, fix = no_start.here(said, self.plan.ranks)
        last = cause_of_death.controllers_last_line(self.folder)
        if not known:
            known, fix = no_start.why(f"{said}\n{last}", Path.cwd())
        if last and not known:
            known = f"their controller ended, and said last: {last}"
        how = f"{self.patience:.0f} s went by" if keeper.all_vital_live(self.folder) else "mpiexec ended"
        seen = known or f"{came} came up, then {how}; the ranks' last lines:\n{said}"
        return LabError(asked, seen, f"{fix}, then start again")


def _proxies(mpiexec: psutil.Process) -> list[psutil.Process]:
    """What holds the ranks on this machine for a Hydra; mpiexec does not notice its end."""
    return [process for process in mpiexec.children(recursive=True) if _name(process) == "hydra_pmi_proxy"]


def _name(process: psutil.Process) -> str:
    """Of a process; none if it has just ended, as what a rank has started may at any time."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def _let_go(mpiexec: psutil.Process) -> None:
    """Take from an MPI's launcher what it needed for ranks to come: open ports, and files."""
    launcher = [mpiexec]
    with suppress(psutil.Error):  # it has just ended, as whoever asks next will see
        launcher += mpiexec.children(recursive=True)
    for process in launcher:
        listeners.refuse_all_of(process)
    mpi_files.remove(mpi_files.held_by(process.pid for process in launcher))
