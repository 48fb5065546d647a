"""Two hosts in this machine, made and taken down by cluster/box, and a look into them from outside."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

BOX = Path(__file__).parents[2] / "cluster" / "box"
NAMES = ("miriad2a", "miriad2b")
NEEDS = {"sshd": "openssh-server", "ssh": "openssh-client", "ip": "iproute2", "tcpdump": "tcpdump"}


class Box:
    """The hosts of cluster/box/up."""

    def up(self, *options: str) -> None:
        """Make the hosts anew, and set the variables that `up` prints."""
        done = subprocess.run([BOX / "up", *NAMES, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            name, value = line.removeprefix("export ").split("=", 1)
            os.environ[name] = value
        self.state = Path(os.environ["LABKIT_SSH_CONFIG"]).parent
        os.environ.pop("LABKIT_HOSTS")  # tests name their hosts

    def down(self) -> None:
        subprocess.run([BOX / "down"], check=True, timeout=60)
        os.environ.pop("LABKIT_SSH_CONFIG", None)

    def limit(self, bandwidth: str) -> None:
        """Change the bandwidth of the hosts' links; "none" takes the limit off."""
        subprocess.run([BOX / "limit", bandwidth], check=True, timeout=20)

    def first_process(self, host: str) -> int:
        return json.loads((self.state / f"{host}.json").read_text())["pid"]

    def inside(self, host: str, *command) -> str:
        """Run a command on a host without its sshd, as somebody who sits before it would."""
        enter = ["nsenter", "--all", "--target", str(self.first_process(host))]
        return subprocess.check_output([*enter, *map(str, command)], text=True, timeout=20)

    def link(self, host: str, state: str) -> None:
        """Set the cable between a host and the bridge up or down."""
        cable = f"labkitbox{NAMES.index(host)}"
        subprocess.run(["ip", "link", "set", cable, state], check=True)

    def processes(self, host: str) -> list[str]:
        """Command lines of all that runs on a host beside its first process and its sshd."""
        here = os.readlink(f"/proc/{self.first_process(host)}/ns/pid")
        found = []
        for process in psutil.process_iter():
            try:
                if os.readlink(f"/proc/{process.pid}/ns/pid") == here:
                    found.append(" ".join(process.cmdline()))
            except (OSError, psutil.Error):
                continue  # it has ended
        return [line for line in found if line and "box.py" not in line and not line.startswith("sshd")]

    def all_processes(self) -> list[str]:
        return [f"{host}: {line}" for host in NAMES for line in self.processes(host)]

    def wait_until_empty(self, seconds: float) -> None:
        """Fail if anything but sshd still runs on a host after so many seconds."""
        deadline = time.monotonic() + seconds
        while left := self.all_processes():
            assert time.monotonic() < deadline, "\n".join(left)
            time.sleep(0.05)


@pytest.fixture(scope="session")
def machine():
    """This one, if it can hold a box."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("hosts in one machine need Linux and root")
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = sorted({package for name, package in NEEDS.items() if not shutil.which(name, path=path)})
    if missing:
        pytest.skip(f"hosts in one machine need {', '.join(missing)}")


@pytest.fixture(scope="session")
def box(machine):
    """Hosts miriad2a and miriad2b."""
    box = Box()
    with open(Path(tempfile.gettempdir(), "labkit-box.lock"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # there is one box in a machine: another session's tests wait
        box.up()
        yield box
        box.down()


@pytest.fixture
def narrow(box):
    """The box with links of 100 Mbit/s."""
    box.limit("100mbit")
    yield box
    box.limit("none")


@pytest.fixture(autouse=True)
def no_hosts_of_the_user(monkeypatch):
    for name in ("LABKIT_HOSTS", "LABKIT_RANKS", "LABKIT_BACKEND"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def pair(box):
    """A lab of one rank on each host; running whenever a test asks for it."""
    from labkit import launch
    from labkit.lab.lab import Lab

    labs = []

    def running() -> Lab:
        if not labs:
            labs.append(Lab(launch.plan(hosts="miriad2a:1,miriad2b:1")))
        elif not labs[0].is_running():
            labs[0].restart()
        return labs[0]

    yield running
    for lab in labs:
        lab.stop()
