"""A place for one learner: a home, and of the machine only what all may read."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hub import apart
from tests import hub
from tests.waiting import WITHIN, until


@pytest.fixture(autouse=True)
def _can_be_apart():
    if missing := hub.lacking(("bwrap", "setpriv")):
        pytest.skip(missing)


@pytest.fixture
def homes(tmp_path):
    """Two homes in a folder, and a file of each learner in it."""
    for name in ("ada", "grace"):
        (tmp_path / "homes" / name).mkdir(parents=True)
        (tmp_path / "homes" / name / "file").write_text(name)
    return tmp_path / "homes"


def said_inside(home: Path, hidden: Path, script: str, *arguments: object, **options) -> str:
    command = [
        *apart.command(home, hidden=[hidden], **options),
        "sh",
        "-c",
        script,
        "sh",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN).stdout


def test_a_home_is_the_learners_and_others_are_not_there(homes):
    said = said_inside(homes / "ada", homes, 'ls "$1"; cat "$1"/*/file; echo mine > file', homes)
    assert said.split() == ["ada", "ada"]
    assert (homes / "ada" / "file").read_text() == "mine\n"


def test_homes_within_what_is_shared_are_hidden_too(homes, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(homes.parent), str(homes)])
    assert said_inside(homes / "ada", homes, 'ls "$1"', homes).split() == ["ada"]


def test_nothing_else_can_be_written(homes):
    places = [sys.prefix, Path(apart.__file__).parent, "/usr", "/etc", "/var"]
    script = 'for place; do touch "$place/x" 2>/dev/null && echo "$place"; done'
    assert said_inside(homes / "ada", homes, script, *places) == ""


def test_a_further_namespace_uncovers_nothing(homes):
    script = 'unshare --user --map-root-user --mount sh -c "umount $1; ls $1"; umount "$1"; ls "$1"'
    assert "grace" not in said_inside(homes / "ada", homes, script, homes)


def test_temporary_files_and_shared_memory_have_a_size_and_go_with_the_place(homes):
    fill = "head -c 3000000 /dev/zero > $place/large; stat -c %s $place/large"
    script = f"for place in /tmp /dev/shm; do {fill}; done"
    sizes = said_inside(homes / "ada", homes, script, room=2**20).split()
    assert [int(size) <= 2**20 for size in sizes] == [True, True]
    assert not Path("/tmp/large").exists() and not Path("/dev/shm/large").exists()


def test_what_leaves_its_parent_ends_with_the_place(homes):
    script = "setsid sleep 1000 & echo $$ > started; exit 0"
    said_inside(homes / "ada", homes, script)
    assert (homes / "ada" / "started").exists()
    mine = f"/proc/*/cwd -> {homes / 'ada'}"
    assert until(lambda: not _with_cwd(homes / "ada")), mine


def test_an_account_is_an_account(homes):
    if os.geteuid() != 0:
        pytest.skip("needs root, which alone starts programs of others")
    for path in (homes / "ada", homes / "ada" / "file"):
        shutil.chown(path, "nobody")
    script = """
        id -un; grep -E 'CapBnd|NoNewPrivs' /proc/self/status
        touch file /tmp/mine /dev/shm/mine && echo written
        "$1" -c 'print("Python")'
    """
    said = said_inside(homes / "ada", homes, script, sys.executable, account="nobody")
    name, _, rights, _, no_more, written, python = said.split()
    assert (name, int(rights, 16), no_more) == ("nobody", 0, "1")
    assert (written, python) == ("written", "Python")


def _with_cwd(folder: Path) -> list[str]:
    """The processes that are in that folder, seen from here."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append(process.name)
        except OSError:
            continue
    return found


ASKS_FOR_KEYS = """
import ctypes, sys
libc, told = ctypes.CDLL(None), ""
try:
    told = open("/proc/keys").read()
except OSError:
    pass
found = [libc.syscall(250, 10, ring, b"user", sys.argv[1].encode(), 0) for ring in range(-8, 0)]
left = [libc.syscall(248, b"user", b"left", b"x", 1, ring) for ring in range(-8, 0)]
print(max(found), max(left), sys.argv[1] in told)
"""


def test_no_key_of_the_machine_comes_in_and_none_stays(homes):
    """Kernel keyrings pass through namespaces, and learners of a try are all one account."""
    libc, secret = ctypes.CDLL(None), f"secret-{os.urandom(4).hex()}"
    libc.syscall(250, 1, None)  # a session keyring, as the hub has one
    if libc.syscall(248, b"user", secret.encode(), b"x", 1, -3) < 0:
        pytest.skip("this kernel has no keys")
    said = said_inside(homes / "ada", homes, 'exec "$@"', sys.executable, "-c", ASKS_FOR_KEYS, secret)
    assert said == "-1 -1 False\n"
