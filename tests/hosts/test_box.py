"""cluster/box: hosts with names and processes of their own; what is taken down is gone, after a crash too."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from .conftest import BOX, NAMES

pytestmark = pytest.mark.hosts


def ssh(box, host, command):
    ask = ["ssh", "-F", box.state / "ssh_config", host, command]
    return subprocess.run(ask, capture_output=True, text=True, timeout=20)


def links():
    shown = subprocess.check_output(["ip", "-json", "link", "show"], text=True)
    return [link["ifname"] for link in json.loads(shown) if link["ifname"].startswith("labkitbox")]


def test_each_host_has_its_name_and_reaches_the_others_by_theirs(box):
    for host in NAMES:
        assert ssh(box, host, "uname -n").stdout == f"{host}\n"
        for other in NAMES:
            knock = f"bash -c 'head -c3 </dev/tcp/{other}/22'"
            assert ssh(box, host, knock).stdout == "SSH", f"{host} to {other}"


def test_hosts_do_not_see_each_others_processes_and_share_files(box, tmp_path):
    (tmp_path / "here").write_text("one disk")
    for host in NAMES:
        assert ssh(box, host, f"cat {tmp_path}/here").stdout == "one disk"
        seen = ssh(box, host, "ps -e -o args=").stdout
        assert f"{host}.sshd_config" in seen
        assert not any(f"{other}.sshd_config" in seen for other in NAMES if other != host)


def test_only_the_key_opens_a_host_and_only_its_owner_reads_it(box, tmp_path):
    for file in [box.state, *box.state.iterdir()]:
        assert file.stat().st_mode & 0o077 == 0 or file.suffix in (".json", ".log"), file
    config = (box.state / "ssh_config").read_text()
    (tmp_path / "ssh_config").write_text(config.replace("user_key", "host_key"))  # some other key
    without = ["ssh", "-F", tmp_path / "ssh_config", NAMES[0], "true"]
    refused = subprocess.run(without, capture_output=True, text=True, timeout=20)
    assert refused.returncode == 255 and "Permission denied (publickey)" in refused.stderr


def test_down_takes_all_down_after_a_crash_too_and_up_makes_it_anew(box):
    os.kill(box.first_process(NAMES[0]), signal.SIGKILL)
    (box.state / f"{NAMES[1]}.json").unlink()
    for _ in range(2):  # the second time there is nothing to do
        subprocess.run([BOX / "down"], check=True, timeout=60)
        assert links() == [] and not box.state.exists()
    box.up()
    assert ssh(box, NAMES[0], "uname -n").stdout == f"{NAMES[0]}\n"


@pytest.mark.parametrize("name", ["Capital", "a" * 16, "a b", "miriad2a miriad2a"])
def test_a_bad_name_is_refused_in_one_sentence(machine, name):
    names = name.split(" ") if "miriad" in name else [name]
    done = subprocess.run([BOX / "up", *names], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "is no name for a host" in done.stderr


AS_LEARNER = """
set -e
mount --bind passwd /etc/passwd
export HOME=$PWD/home PATH=/usr/bin:/bin:/usr/sbin:/sbin
unset XDG_STATE_HOME
exec setpriv --reuid 4242 --regid 4242 --clear-groups "$@"
"""


@pytest.fixture
def as_learner(machine):
    """`as_learner("command", ...)` runs beside cluster/box as a user without root, known here alone."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if not python:
        pytest.skip("a user who is not root may not reach this Python, and there is none in /usr/bin")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        shutil.copytree(BOX, folder / "box", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "home").mkdir()
        os.chown(folder / "home", 4242, 4242)
        line = f"learner:x:4242:4242::{folder}/home:/bin/sh\n"
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + line)

        def run(*command):
            private = ["unshare", "--mount", "sh", "-c", AS_LEARNER, "sh", *command]
            return subprocess.run(private, cwd=folder, capture_output=True, text=True, timeout=60)

        yield run


def test_without_root_up_says_in_a_sentence_what_to_do(as_learner):
    done = as_learner("box/up", "a")
    assert done.returncode == 1 and done.stderr.startswith(
        "a box needs root: sudo cluster/box/up; without root"
    )


def test_without_root_a_command_finds_hosts_within_namespaces_of_the_user(as_learner):
    asks = 'for h in a b; do ssh -F $LABKIT_SSH_CONFIG $h "uname -n; id -un"; done; echo $LABKIT_HOSTS'
    done = as_learner("box/inside", "a", "b", "--slots", "3", "--", "sh", "-c", asks)
    if "lets no user make namespaces" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.split() == ["a", "learner", "b", "learner", "a:3,b:3"], done.stderr
