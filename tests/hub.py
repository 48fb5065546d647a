"""A hub on this machine, as `cluster/hub/up --try` brings it up, and what belongs to it."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest

from labkit.launch.hosts.ports import free_port
from tests.waiting import WITHIN, until

ROOT = Path(__file__).parents[1]
PASSWORD = "of all learners"
SEEN = "/mnt"
"""Where accounts find the hub's folder, whatever they may not pass on the way to where it is."""
TEACHERS_PASSWORD = "of the teacher, which has to be long"


def lacking(programs: Collection[str] = ()) -> str:
    """What this machine lacks for a hub, or for these programs of it; "" if nothing."""
    spec = importlib.util.spec_from_file_location("hub", ROOT / "cluster" / "hub" / "hub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = module.lacking(path, tried=True)
    if programs:
        found = [line for line in found if line.split()[0] in programs]
    if not found:
        inside = [
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--unshare-user",
            "--unshare-pid",
            "--proc",
            "/proc",
            "true",
        ]
        refused = subprocess.run(inside, capture_output=True, text=True, timeout=WITHIN)
        found = [f"no namespaces here: {refused.stderr.strip()}"] if refused.returncode else []
    return "; ".join(found)


class Hub:
    """`url` is its address, `folder` what it was given, `begun` all processes that were seen of it.

    `accounts` are its learners', if they have any.
    """

    def __init__(self, folder: Path, *options: str, accounts: Collection[str] = (), **environment: str):
        self.folder, self.temporary, self.accounts = folder / "hub", folder / "temporary", accounts
        self.temporary.mkdir(parents=True)
        self.url = f"http://localhost:{free_port()}"
        self.begun: set[psutil.Process] = set()
        self._log = open(folder / "log", "w")
        told = {"LABKIT_HUB_PASSWORD": PASSWORD, "LABKIT_HUB_TEACHERS_PASSWORD": TEACHERS_PASSWORD}
        told |= {"TMPDIR": str(self.temporary), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        bind = f"--JupyterHub.bind_url={self.url.replace('localhost', '127.0.0.1')}"
        command = [ROOT / "cluster" / "hub" / "up", SEEN if accounts else self.folder, bind]
        command += [] if accounts else ["--try"]
        command = [*_with_accounts(folder, accounts), *command] if accounts else command
        self._process = subprocess.Popen(
            [*command, *options],
            env=os.environ | told | environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        if not until(self._answers, 3 * WITHIN) or self._process.poll() is not None:
            self.kill()
            said = [line for line in self.said().splitlines() if "JupyterHub" in line or "rror:" in line]
            raise RuntimeError("the hub did not come up:\n" + "\n".join(said[-20:]))

    def learner(self, name: str, password: str = PASSWORD):
        """A learner who has logged in."""
        from cluster.hub.learner import Learner

        learner = Learner(self.url, name, password)
        learner.log_in()
        return learner

    def look(self) -> set[psutil.Process]:
        """All processes of the hub, its learners' too."""
        with_pid = psutil.Process(self._process.pid)
        now = {with_pid, *with_pid.children(recursive=True)}
        self.begun |= now
        return now

    def of(self, name: str) -> set[psutil.Process]:
        """The processes in that learner's place."""
        home = str(self.folder / "homes" / name)
        found = set()
        for process in self.look():
            try:
                if process.name() == "bwrap" and {home, f"/home/{name}"} & set(process.cmdline()):
                    found |= {process, *process.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
        self.begun |= found
        return found

    def end(self) -> None:
        """As Ctrl-C does."""
        self.look()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(WITHIN)
        finally:
            self.kill()

    def kill(self) -> None:
        """As nobody should."""
        if self._process.poll() is None:
            self.look()
            self._process.kill()
            self._process.wait()
        self._log.close()

    def left(self) -> list[str]:
        """What of its processes still runs."""
        return [str(process) for process in self.begun if lives(process)]

    def groups(self) -> list[Path]:
        """The control groups that it has made."""
        return list(Path("/sys/fs/cgroup").glob(f"**/labkit-hub-{self._process.pid}-*"))

    def said(self) -> str:
        return Path(self._log.name).read_text()

    def _answers(self) -> bool:
        try:
            urlopen(f"{self.url}/hub/login", timeout=2).close()
            return True
        except (URLError, OSError):
            return self._process.poll() is not None


def _with_accounts(folder: Path, names: Collection[str]) -> list[str]:
    """What to put before a command that finds these accounts, though the machine does not have them."""
    (folder / "hub").mkdir()
    made = [
        f"mount --bind {folder}/hub {SEEN}",
        f"cp -a /etc {folder}/etc",
        f"mount --bind {folder}/etc /etc",
        "mount -t tmpfs homes /home",
    ]
    made += ["groupadd learners", "groupadd teachers", "useradd --create-home --groups teachers teacher"]
    made += [f"useradd --create-home --groups learners {name}" for name in names]
    made += [f"echo '{name}:{PASSWORD}' | chpasswd" for name in (*names, "teacher")]
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        "; ".join([*made, 'exec "$0" "$@"']),
    ]


@contextmanager
def up(folder: Path, *options: str, **environment) -> Iterator[Hub]:
    """A hub, and its end; skips where there can be none. With `accounts`, which takes root, of a class."""
    if missing := lacking():
        pytest.skip(missing)
    if environment.get("accounts") and os.geteuid() != 0:
        pytest.skip("the hub of a class needs root")
    running = Hub(folder, *options, **environment)
    try:
        yield running
    finally:
        running.kill()
        until(lambda: not running.left())


def lives(process: psutil.Process) -> bool:
    """A container's first process may never reap the dead."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
