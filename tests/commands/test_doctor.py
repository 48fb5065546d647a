"""Every planted fault is found by its name: on facts, and planted for real on hosts behind an sshd."""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from labkit import launch
from labkit.commands import doctor
from labkit.commands.__main__ import main
from labkit.launch import runtime, witness
from labkit.launch.hosts import facts, ports, ssh
from labkit.launch.hosts.ports import free_port
from labkit.launch.preflight.judge import HERE, Check
from labkit.launch.runtime import RUNTIME
from tests.waiting import until

PASSING = {"little memory", "kernels heard by others"}
"""What depends on what else runs here; all else has to be in order where tests run."""


def faults(found) -> list[str]:
    return [check.fault for check in found if check.fault]


def test_this_machine(capsys):
    main(["doctor", "--json"])
    checks = [Check(**told) for told in json.loads(capsys.readouterr().out)]
    assert set(faults(checks)) <= PASSING
    looked_at = {"Python", "torch", "MPI", "world of ranks", "GPUs", "Jupyter's folder", "kernels"}
    assert looked_at <= {check.what for check in checks}


def test_the_exit_code_tells(monkeypatch, capsys):
    monkeypatch.setattr(
        doctor, "examine", lambda hosts: [Check("b", "torch", "none", "2.13", "other torch", "do")]
    )
    assert main(["doctor"]) == 1 and "FAULT b: other torch" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "examine", lambda hosts: [Check("b", "torch", "2.13", "2.13")])
    assert main(["doctor"]) == 0


def sealed(*mounts: tuple[Path, Path]) -> str:
    """A forced command that runs what was asked with these files in the place of others."""
    binds = " && ".join(f"mount --bind {shlex.quote(str(a))} {shlex.quote(str(b))}" for a, b in mounts)
    return f"unshare -m sh -c '{binds} && exec sh -c \"$SSH_ORIGINAL_COMMAND\"'"


def another_python() -> Path | None:
    """A Python on this machine of another version than this one."""
    for path in (Path(p) for p in ("/usr/bin/python3", *Path("/usr/bin").glob("python3.*[0-9]"))):
        if path.exists():
            says = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.split()
            if says and says[-1] != platform.python_version():
                return path.resolve()
    return None


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """An ssh configuration whose host names are faults; behind them one sshd that plants each, by port."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("planting faults needs root on Linux")
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if not sshd:
        pytest.skip("there is no sshd: apt-get install openssh-server")
    folder = tmp_path_factory.mktemp("sshd")
    folder.chmod(0o700)
    for name in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    here = launch.find_mpi()
    site = Path(sysconfig.get_path("purelib"))

    def file(name: str, text: str) -> Path:
        made = folder / name
        made.write_text(text)
        made.chmod(0o755)
        return made

    runtime.folder()
    empty = folder / "empty"
    empty.mkdir()
    metadata = next(site.glob("torch-*.dist-info")) / "METADATA"
    old_torch = metadata.read_text().replace(f"\nVersion: {facts.version('torch')}\n", "\nVersion: 2.12.0\n")
    startup = next(site.glob("distutils-precedence.pth"))
    late = "import time; time.time = lambda at=time.time: at() + 60\n"
    forced = {
        "healthy": "",
        "other user": 'exec env USER=ada LOGNAME=ada sh -c "$SSH_ORIGINAL_COMMAND"',
        "other MPI": sealed(
            (file("mpiexec", "#!/bin/sh\necho mpiexec (Open MPI) 5.0.11\n"), Path(here.mpiexec))
        ),
        "other torch": sealed((file("METADATA", old_torch), metadata)),
        "folder not shared": sealed((empty, RUNTIME)),
        "clock off": sealed((file("late.pth", late), startup)),
        "port blocked": 'unshare -n sh -c "$SSH_ORIGINAL_COMMAND"',
        "no free slot": "",
    }
    if other := another_python():
        forced["other Python"] = sealed((other, Path(sys.executable).resolve()))
    port = {name: free_port() for name in (*forced, "password asked", "host down")}
    config = [
        *(f"ListenAddress 127.0.0.1:{n}" for name, n in port.items() if name != "host down"),
        f"HostKey {folder}/host", f"AuthorizedKeysFile {folder}/user.pub", "StrictModes no", "UsePAM no",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin yes", "PidFile none",
        "MaxStartups 100",
    ]  # fmt: skip
    for name, command in forced.items():
        if command:
            config += [f"Match LocalPort {port[name]}", f"    ForceCommand {command}"]
    config += [f"Match LocalPort {port['password asked']}", "    PasswordAuthentication yes"]
    config += ["    AuthorizedKeysFile none"]
    (folder / "sshd_config").write_text("\n".join(config) + "\n")
    at = {name: ("127.0.0.1", number, "user") for name, number in port.items()}
    at["wrong key"] = ("127.0.0.1", port["healthy"], "stranger")
    at["host unknown"] = ("no-such-host.invalid", 22, "user")
    ssh = [
        f"Host {alias(name)}\n    HostName {address}\n    Port {number}\n    IdentityFile {folder}/{key}\n"
        for name, (address, number, key) in at.items()
    ]
    ssh += [
        "Host *\n    IdentitiesOnly yes\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n"
    ]
    (folder / "ssh_config").write_text("".join(ssh))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(
        [sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=(folder / "log").open("w")
    )
    old = os.environ.get("LABKIT_SSH_CONFIG")
    os.environ["LABKIT_SSH_CONFIG"] = str(folder / "ssh_config")
    assert until(lambda: "Server listening" in (folder / "log").read_text()), (folder / "log").read_text()
    yield set(forced)
    os.environ.pop("LABKIT_SSH_CONFIG")
    if old is not None:
        os.environ["LABKIT_SSH_CONFIG"] = old
    server.terminate()
    server.wait(10)


@pytest.fixture
def patient(monkeypatch):
    """A host that is well, and late, is found to be well."""
    monkeypatch.setattr(ssh, "PROBE_DEADLINE", 60.0)
    monkeypatch.setattr(ports, "DEADLINE", 60.0)


def alias(fault: str) -> str:
    return fault.replace(" ", "-").lower()


TWELVE = [
    "host unknown", "host down", "wrong key", "password asked", "other user", "other MPI", "other torch",
    "other Python", "folder not shared", "clock off", "port blocked", "no free slot",
]  # fmt: skip


@pytest.mark.hosts
@pytest.mark.parametrize("fault", TWELVE)
def test_a_planted_fault_is_found_by_name(fault, planted, patient, capsys):
    if fault == "other Python" and fault not in planted:
        pytest.skip("this machine has one version of Python only")
    rank, slots = None, 64  # other labs may have ranks on this machine
    if fault == "no free slot":
        slots = 1
        rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(170)", witness.__file__])
    try:
        code = main(["doctor", "--hosts", f"{alias(fault)}:{slots},healthy:64", "--json"])
    finally:
        if rank:
            rank.kill()
            rank.wait()
    checks = [Check(**told) for told in json.loads(capsys.readouterr().out)]
    of_it = {check.fault for check in checks if check.host == alias(fault)} - {"", "little memory"}
    about_it = {check.fault for check in checks if alias(fault) in check.what} - {""}
    assert code == 1 and of_it == {fault} and about_it <= {fault}, checks
    assert not {c.fault for c in checks if c.host in (HERE, "healthy")} - {"", *PASSING, *about_it}


@pytest.mark.hosts
def test_hosts_in_order_have_no_fault(planted, patient, capsys):
    main(["doctor", "--hosts", "healthy:64", "--json"])
    checks = [Check(**told) for told in json.loads(capsys.readouterr().out)]
    assert set(faults(checks)) <= PASSING
    reached = {(check.host, check.what) for check in checks if check.what.startswith("ports of")}
    assert reached == {(HERE, "ports of healthy"), ("healthy", f"ports of {HERE}")}


@pytest.mark.hosts
def test_nothing_is_left_after_the_doctor(planted, patient, capsys):
    main(["doctor", "--hosts", "healthy:64"])
    line = ports.LISTEN.split("\n")[2]

    def left() -> bool:
        return line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout

    assert until(lambda: not left())
