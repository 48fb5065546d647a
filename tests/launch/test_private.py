"""The folder of running labs is its user's alone, and what lies in it is never half written."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from labkit import LabError
from labkit.launch import private


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

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(LabError, match="Read-only file system"):
        private.write(tmp_path / "holder", "new")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_on_a_full_disk_the_old_text_stays(tmp_path, monkeypatch):
    file = tmp_path / "holder"
    private.write(file, "old")
    (tmp_path / f"holder.{os.getpid()}.new").symlink_to("/dev/full")
    with pytest.raises(LabError, match="No space left"):
        private.write(file, "new")
    assert file.read_text() == "old"
