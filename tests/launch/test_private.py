"""The folder of running labs is its user's alone, and what lies in it is never half written."""

import errno
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from labkit import LabError
from labkit.commands import jupyterlab
from labkit.launch import private, runtime
from labkit.launch.preflight import judge


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277], ids=oct)
def test_nobody_else_enters_whatever_the_umask_and_whoever_made_it(tmp_path, umask):
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o777)
    before = os.umask(umask)
    try:
        made = private.folder(tmp_path / "made")
        assert (
            stat.S_IMODE(made.stat().st_mode) == stat.S_IMODE(private.folder(there).stat().st_mode) == 0o700
        )
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home that all may read, without a folder of Jupyter's so far."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(runtime, "RUNTIME", tmp_path / ".local" / "share" / "jupyter" / "runtime" / "labkit")
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277], ids=oct)
def test_the_folder_of_jupyters_tokens_is_its_users_alone_from_the_first(home, umask):
    before = os.umask(umask)
    try:
        made = runtime.folder()
    finally:
        os.umask(before)
    for path in (made, *made.parents):
        if path == home:
            break
        assert mode(path) == 0o700, path
    assert mode(home) == 0o755, "a home stays as it is"


@pytest.mark.parametrize("opened", [0o755, 0o770, 0o777, 0o1777], ids=oct)
def test_it_is_shut_where_it_was_open_with_what_lies_in_it(home, opened):
    folder = runtime.RUNTIME.parent
    folder.mkdir(parents=True)
    (folder / "jpserver-1-open.html").write_text("a token")
    (folder / "elsewhere").symlink_to(home / "shared")
    (home / "shared").touch(0o644)
    for path, as_found in (
        (folder, opened),
        (folder.parent, 0o777),
        (folder / "jpserver-1-open.html", 0o666),
    ):
        path.chmod(as_found)
    assert private.shut(folder) == f"mode {opened:04o}" and private.shut(folder) == ""
    assert (mode(folder), mode(folder.parent), mode(folder / "jpserver-1-open.html")) == (0o700, 0o755, 0o600)
    assert mode(home / "shared") & 0o044, "what a link leads to is not Jupyter's"


def test_what_is_for_all_is_told_and_stays_open(home, monkeypatch):
    for name in private.FOR_ALL[:2]:
        before = mode(Path(name))
        private.shut(Path(name))
        assert mode(Path(name)) == before
    monkeypatch.setattr(private, "FOR_ALL", (str(home / "shared"),))
    (home / "shared").mkdir()
    (home / "shared").chmod(0o1777)
    assert private.shut(home / "shared") == "mode 1777" and mode(home / "shared") == 0o1777


def test_the_doctor_tells_who_could_enter_and_who_can_hear(home):
    checks = judge.of_privacy(home, "mode 0755", "", ["kernel-1", "kernel-2"])
    folder, kernels = list(checks)
    assert folder.fault == "Jupyter's folder open to others" and "closed now" in folder.fix
    assert kernels.fault == "kernels heard by others" and "labkit lab" in kernels.fix
    assert "JUPYTER_RUNTIME_DIR" in next(judge.of_privacy(home, "mode 1777", "mode 1777", [])).fix
    assert not any(check.fault for check in judge.of_privacy(home, "", "", []))


def test_kernels_that_others_hear_are_found(home):
    folder = runtime.folder().parent
    with socket.create_server(("127.0.0.1", 0)) as heard:
        port = heard.getsockname()[1]
        for name, told in {
            "kernel-heard": {"transport": "tcp", "ip": "127.0.0.1", "iopub_port": port},
            "kernel-encrypted": {
                "transport": "tcp",
                "ip": "127.0.0.1",
                "iopub_port": port,
                "curve_publickey": "k",
            },
            "kernel-with-sockets": {"transport": "ipc", "ip": str(folder / "kernel-x-ipc"), "iopub_port": 1},
            "kernel-torn": {"transport": "tcp"},
        }.items():
            (folder / f"{name}.json").write_text(json.dumps(told))
        assert runtime.heard_by_others() == ["kernel-heard"]
    assert runtime.heard_by_others() == []


def test_sockets_of_killed_kernels_are_swept_away_and_no_others(monkeypatch):
    short = Path(tempfile.mkdtemp(prefix="labkit-"))
    monkeypatch.setattr(runtime, "RUNTIME", short / "labkit")
    living, dead = (short / f"kernel-{name}-ipc-1" for name in ("living", "dead"))
    try:
        with socket.socket(socket.AF_UNIX) as listens, socket.socket(socket.AF_UNIX) as ended:
            for path, bound in ((living, listens), (dead, ended)):
                bound.bind(str(path))
                bound.listen()
            ended.close()
            (short / "kernel-a-ipc-file").write_text("not a socket")
            runtime.sweep()
            assert living.exists() and not dead.exists() and (short / "kernel-a-ipc-file").exists()
    finally:
        shutil.rmtree(short)


def test_a_socket_has_a_name_that_fits(home, monkeypatch):
    assert runtime.has_room_for_sockets() == (len(str(runtime.RUNTIME.parent)) + 54 <= runtime.LONGEST)
    monkeypatch.setattr(runtime, "RUNTIME", Path("/h") / "labkit")
    assert runtime.has_room_for_sockets() and jupyterlab._unheard() == "--KernelManager.transport=ipc"
    monkeypatch.setattr(runtime, "RUNTIME", Path("/h" * 40) / "labkit")
    assert "transport_encryption" in jupyterlab._unheard()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what is another user's")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_another_users_is_refused(tmp_path, kind):
    path = tmp_path / "labkit"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path)
    os.chown(path, 65534, 65534, follow_symlinks=False)
    with pytest.raises(LabError, match="belongs to the user with number 65534") as told:
        private.folder(path)
    assert "JUPYTER_RUNTIME_DIR" in told.value.fix


def test_who_reads_finds_the_old_text_or_the_new(tmp_path):
    file, over = tmp_path / "holder", threading.Event()
    texts = {letter * 100_000 for letter in "ab"}
    private.write(file, "a" * 100_000)

    def rewrite():
        while not over.is_set():
            for text in texts:
                private.write(file, text)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        assert {file.read_text() for _ in range(500)} <= texts
    finally:
        over.set()
        writer.join()


def test_where_nothing_can_be_written_any_more_it_is_a_lab_error(tmp_path, monkeypatch):
    """A file system that turned read-only refuses to remove a file, too, whether it is there or not."""

    def refuse(path, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with monkeypatch.context() as patched, pytest.raises(LabError, match="Read-only file system"):
        patched.setattr(private.os, "open", refuse)
        private.write(tmp_path / "holder", "new")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_on_a_full_disk_the_old_text_stays(tmp_path, monkeypatch):
    file = tmp_path / "holder"
    private.write(file, "old")
    real = os.open
    with monkeypatch.context() as patched, pytest.raises(LabError, match="No space left"):
        patched.setattr(private.os, "open", lambda *asked: real("/dev/full", os.O_WRONLY))
        private.write(file, "new")
    assert file.read_text() == "old"


@pytest.mark.parametrize("name", ["{}.{}.new", "{}.new", ".{}.{}.new", "{}.tmp"])
def test_a_link_that_somebody_has_planted_beside_leads_nowhere(tmp_path, name):
    """In a folder that others write to, under any name that they can know before."""
    file, theirs = tmp_path / "grades.csv", tmp_path / "precious"
    theirs.write_text("precious")
    (tmp_path / name.format(file.name, os.getpid())).symlink_to(theirs)
    private.write(file, "grades", mode=0o600)
    assert theirs.read_text() == "precious" and file.read_text() == "grades"


def test_a_link_in_its_place_is_replaced_and_no_name_can_be_known_before(tmp_path, monkeypatch):
    file, theirs = tmp_path / "grades.csv", tmp_path / "precious"
    theirs.write_text("precious")
    file.symlink_to(theirs)
    private.write(file, "grades")
    assert theirs.read_text() == "precious" and not file.is_symlink()
    monkeypatch.setattr(private.secrets, "token_hex", lambda length: "known")
    (tmp_path / ".known.new").symlink_to(theirs)
    with pytest.raises(LabError):
        private.write(file, "other")
    assert theirs.read_text() == "precious" and file.read_text() == "grades"


def test_no_file_of_labkit_s_is_written_under_a_name_that_can_be_known_before():
    """What is written beside its place and renamed is `private.write`'s affair, everywhere."""
    sources = {path: path.read_text() for top in ("labkit", "cluster") for path in Path(top).rglob("*.py")}
    made = re.compile(r"""os\.(?:replace|rename)\(|\.rename\(|with_suffix\(["']\.(?:new|tmp)|mktemp\(""")
    assert {str(path) for path, text in sources.items() if made.search(text)} == set()


def test_a_umask_that_closes_ones_own_files_is_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    before = os.umask(0o777)
    try:
        with pytest.raises(LabError, match="your umask is 777"):
            private.require_umask()
        os.umask(0o077)
        private.require_umask()
        assert os.umask(before) == 0o077
    finally:
        os.umask(before)
