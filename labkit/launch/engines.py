"""A plan brought to life: one ipyparallel controller and the plan's ranks, and their end."""

import errno
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ipyparallel as ipp
import psutil
from jupyter_core.paths import jupyter_runtime_dir
from traitlets.config import Config

from labkit import LabError
from labkit.launch import (
    Plan,
    cause_of_death,
    channel,
    keeper,
    listeners,
    mpi_files,
    private,
    processes,
    remote,
    slurm,
    witness,
)
from labkit.launch.preflight import judge, start

RUNTIME = Path(jupyter_runtime_dir(), "labkit")
"""Where each running lab has a folder of its own, private to the user, named by its id."""
LONGEST = 107
"""Bytes that the name of a Unix socket may have."""
START_DEADLINE = 120.0
"""Seconds until a start that has not succeeded is given up."""
HALF_WRITTEN = 3.0
"""Seconds that the controller is given to finish the file that says how to reach it."""
LITTLE_ROOM = 1 << 16
"""Bytes of disk with which a start that failed has failed for want of them."""
KEEPER_MISSED_AFTER = 1.0
"""Seconds between two looks at whether the keeper lives."""

_quiet = logging.getLogger("labkit.ipyparallel")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False

_CONTROLLER_ARGS = [
    "--usethreads",  # one process in place of nine
    "--HeartMonitor.period=200",  # milliseconds; a registration waits for a heartbeat
    "--HeartMonitor.max_heartmonitor_misses=100000",  # labkit watches the processes themselves
]


def this_notebook() -> str:
    """What other notebooks call the one that this process runs."""
    return Path(os.environ.get("JPY_SESSION_NAME", "a notebook")).name


@contextmanager
def with_room(folder: Path = RUNTIME) -> Iterator[None]:
    """LabError where the system refuses a file, a process or a socket that a lab needs."""
    try:
        yield
    except OSError as error:
        fix = f"see that {folder} can be written and has room, or set JUPYTER_RUNTIME_DIR to another folder"
        raise LabError("a lab", f"the system says: {error}", fix) from error


def _require_loopback() -> None:
    """LabError if this machine cannot talk to itself."""
    with socket.socket() as end:
        try:
            end.bind(("127.0.0.1", 0))
        except OSError as error:
            fix = "ip link set lo up; ip addr add 127.0.0.1/8 dev lo"
            raise LabError("a lab", f"this machine has no IPv4 loopback, 127.0.0.1 ({error})", fix) from None


def _proxies(mpiexec: psutil.Process) -> list[psutil.Process]:
    """What holds the ranks on this machine for a Hydra; mpiexec does not notice its end."""
    return [process for process in mpiexec.children(recursive=True) if process.name() == "hydra_pmi_proxy"]


class Engines:
    """The processes of one lab: keeper, controller, mpiexec, ranks. `client` talks to the ranks."""

    def __init__(self, plan: Plan, folder: Path, patience: float = START_DEADLINE):
        self.plan, self.folder, self._patience = plan, folder, patience
        self.lab_id = folder.name
        self.client: ipp.Client | None = None
        self._children: list[subprocess.Popen] = []  # that are to be waited for: keeper, fork server
        self._address = ""  # where other hosts reach this one
        self._stopped = threading.Event()

    @classmethod
    def start(
        cls, plan: Plan, owner: str, folder: Path | None = None, patience: float = START_DEADLINE
    ) -> "Engines":
        """Start them all; `owner` is the identity of the process that they must not outlive."""
        engines = cls.prepare(plan, owner, folder, patience)
        try:
            with with_room():
                engines._start_cluster()
        except BaseException:
            engines.stop()
            raise
        return engines

    @classmethod
    def prepare(
        cls, plan: Plan, owner: str, folder: Path | None = None, patience: float = START_DEADLINE
    ) -> "Engines":
        """The keeper alone, with a folder; where ranks are to run has been looked at."""
        _require_loopback()
        with with_room():
            engines = cls(plan, folder or private.folder(RUNTIME) / secrets.token_hex(4), patience)
            engines.folder.mkdir(mode=0o700)
        try:
            with with_room():
                engines.belong_to(owner)
            if plan.hosts:
                engines._address = start.require_hosts(plan, RUNTIME)
            if plan.launcher == "slurm":
                engines._address = slurm.own_address_for_nodes()
                engines.folder.joinpath(slurm.MARKER).touch()
            if not plan.is_remote:
                start.require_shared_memory(plan)
            engines._start_keeper()
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
        try:
            engines.client = ipp.Client(str(folder / "security" / "ipcontroller-client.json"))
        except (OSError, RuntimeError, ValueError):  # the controller is stopped, or has just ended
            return None
        engines._watch_keeper()
        return engines

    def belong_to(self, owner: str) -> None:
        """From now on they must not outlive that process."""
        keeper.note(self.folder / keeper.OWNER, owner)

    def stop(self) -> None:
        """End every process and remove the folder with the connection files."""
        self._stopped.set()
        if self.client is not None:
            self.client.close(linger=0)
        if self.folder.exists():
            with suppress(OSError, LabError):  # a full disk: it ends all the same
                keeper.note(self.folder / keeper.GONE, f"{keeper.ENDED_BY}{this_notebook()}")
        self._end_keeper()
        if self.plan.launcher == "slurm":
            slurm.cancel(self.lab_id)
        processes.end_lab(self.lab_id, spare=(os.getpid(),))
        for child in self._children:
            child.wait(5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_alive(self) -> bool:
        """Whether all that is vital lives; mpiexec ends when any rank has."""
        return all(processes.is_alive(p) for p in keeper.vital(self.folder).values())

    def _start_keeper(self) -> None:
        hosts = [host.name for host in self.plan.placed()]
        command = ["labkit.launch.keeper", self.lab_id, str(self.folder), *hosts]
        started = self._begin(command, {processes.MARK: self.lab_id})
        keeper.note(self.folder / keeper.SELF, processes.identity(started))

    def _begin(self, module: list[str], environment: dict[str, str], **files: Any) -> psutil.Process:
        """Start a process of the lab that runs a module of labkit."""
        silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        child = subprocess.Popen(
            [sys.executable, "-m", *module],
            env=os.environ | environment,
            start_new_session=True,  # an interrupt of the owner must not reach it
            **silent | files,
        )
        self._children.append(child)
        return psutil.Process(child.pid)

    def _watch_keeper(self) -> None:
        threading.Thread(target=self._replace_keeper, name="labkit-keeper-watch", daemon=True).start()

    def _replace_keeper(self) -> None:
        """A keeper that is killed leaves the lab without an end; another takes its place."""
        while not self._stopped.wait(KEEPER_MISSED_AFTER):
            if (self.folder / keeper.GONE).exists() or not self.is_alive():
                return
            if not any(map(processes.is_alive, keeper.noted(self.folder / keeper.SELF))):
                with suppress(OSError, LabError, psutil.Error):  # the lab is just being ended elsewhere
                    self._start_keeper()

    def _end_keeper(self) -> None:
        """It takes along what runs on other hosts: it alone has a line to them."""
        keepers = processes.of_lab(self.lab_id, module="labkit.launch.keeper")
        processes.end(keepers, grace=keeper.HOST_DEADLINE + 2.0)

    def launcher(self) -> tuple[list[str], list[str], dict[str, str]]:
        """What starts the ranks: a command; its options, which come after -n and the count; environment."""
        options, environment = [], {processes.MARK: self.lab_id, "LABKIT_FOLDER": str(self.folder)}
        environment |= self.plan.environment()
        if self.plan.is_remote:
            environment |= {"LABKIT_NOTEBOOK": self._address, "LABKIT_LOGS": str(self.folder / "log")}
        else:
            environment |= self.plan.mpi.on_one_machine(self.folder)
        if self.plan.hosts:
            options, more = remote.start_options(self.plan, self.folder, self._address, environment)
            environment |= more
        command = self.plan.command(slurm.job(self.lab_id))
        if self.plan.hosts:
            command = remote.with_few_variables(command)
        return command, options, environment

    def _start_cluster(self) -> None:
        deadline = time.monotonic() + self._patience
        config = Config()
        command, options, environment = self.launcher()
        config.MPIEngineSetLauncher.mpi_cmd, config.MPIEngineSetLauncher.mpi_args = command, options
        config.MPIEngineSetLauncher.engine_cmd = self._program(environment)
        channel.secure(self.folder, self._address or "127.0.0.1")
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
        cluster.start_controller_sync(environment={processes.MARK: self.lab_id})
        cluster.start_engines_sync(self.plan.ranks, environment=environment, engine_args=self._engine_args())
        cause_of_death.keep_report(Path(cluster.engine_set.output_file))
        vital = (cluster.controller.process, cluster.engine_set.process)
        keeper.note(self.folder / keeper.WATCHED, *map(processes.identity, vital))
        self.client = self._connected(cluster)
        while len(self.client.ids) < self.plan.ranks:
            if not self.is_alive() or time.monotonic() > deadline:
                raise self._did_not_start()
            time.sleep(0.01)
        keeper.note(self.folder / keeper.WATCHED, *map(processes.identity, [*vital, *_proxies(vital[1])]))
        self._watch_keeper()
        if not self.plan.is_remote:
            _let_go(cluster.engine_set.process)

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
            self._begin(command, environment, stdout=said, stderr=said, pass_fds=[listening.fileno()])
        return [sys.executable, "-I", "-S", witness.__file__, str(path)]

    def _connected(self, cluster: ipp.Cluster) -> ipp.Client:
        deadline = time.monotonic() + HALF_WRITTEN
        while True:
            try:
                return cluster.connect_client_sync()
            except (RuntimeError, TimeoutError):  # the keeper ends the controller when mpiexec has ended
                raise self._did_not_start() from None
            except ValueError:  # the controller is just writing how to reach it, or cannot
                if time.monotonic() > deadline:
                    raise self._did_not_start() from None
                time.sleep(0.05)

    def _engine_args(self) -> list[str]:
        return [
            "--IPEngine.enable_nanny=False",  # signals go straight to the rank's pid
            "--IPEngine.max_heartbeat_misses=0",
            f"--IPEngine.wait_for_url_file={self._patience}",
            f"--IPEngine.timeout={self._patience}",
        ]

    def _did_not_start(self) -> LabError:
        if shutil.disk_usage(self.folder).free < LITTLE_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        said = cause_of_death.last_lines(self.folder)
        found, fix = slurm.why_no_nodes(said) if self.plan.launcher == "slurm" else ("", "")
        if found:
            return LabError(f"{self.plan.ranks} ranks started by Slurm", found, fix)
        fix = judge.MORE_SHARED_MEMORY if "Bus error" in said else "mend what the last lines say"
        came = len(self.client.ids) if self.client else 0
        how = f"{self._patience:.0f} s went by" if self.is_alive() else "mpiexec ended"
        return LabError(
            f"{self.plan.ranks} ranks with {self.plan.mpi.name} {self.plan.mpi.version}",
            f"{came} came up, then {how}; the ranks' last lines:\n{said}",
            f"{fix}, then start again",
        )


def _let_go(mpiexec: psutil.Process) -> None:
    """Take from an MPI's launcher what it needed for ranks to come: open ports, and files."""
    launcher = [mpiexec]
    with suppress(psutil.Error):  # it has just ended, as whoever asks next will see
        launcher += mpiexec.children(recursive=True)
    for process in launcher:
        listeners.refuse_all_of(process)
    mpi_files.remove(mpi_files.held_by(process.pid for process in launcher))
