"""Folders that only this user enters, and files in them that nobody finds half written."""

import os
import secrets
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from labkit import LabError

FOR_ALL = ("/", "/tmp", "/var/tmp", "/dev/shm", "/run")
"""Folders that other users need, too, whoever owns them."""


def folder(path: Path) -> Path:
    """The folder at `path`, made if need be; LabError if it is another user's."""
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
            above.chmod(0o700)
    path.mkdir(mode=0o700, exist_ok=True)
    if not is_mine(path):
        raise LabError(
            f"a folder of yours for running labs, {path}",
            f"it belongs to the user with number {path.lstat().st_uid}, who could read and end your labs",
            "name another place in JUPYTER_RUNTIME_DIR",
        )
    if stat.S_IMODE(path.stat().st_mode) != 0o700:  # an older labkit, or another program, has made it
        path.chmod(0o700)
    return path


def shut(path: Path) -> str:
    """Let nobody else enter a folder of this user, read a file in it, or put another in its place.

    Returns how far it was open, "" if it was not. What is for all, or another user's, stays as it is.
    """
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_dir() else 0
    found = f"mode {mode:04o}" if mode & 0o077 else ""
    kept = {Path(place).resolve() for place in (*FOR_ALL, tempfile.gettempdir(), Path.home())}
    if not path.is_dir() or path.resolve() in kept or not is_mine(path):
        return found
    if found:
        path.chmod(0o700)
        for file in path.iterdir():
            with suppress(OSError):  # it is gone
                if file.is_file() and not file.is_symlink() and is_mine(file):
                    file.chmod(0o600)
    for above in path.resolve().parents:
        mode = stat.S_IMODE(above.stat().st_mode)
        if mode & 0o022 and Path.home().resolve() in above.parents and is_mine(above):
            above.chmod(mode & ~0o022)
    return found


def require_umask() -> None:
    """LabError if files that this user makes are closed to this user."""
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & 0o700 and os.geteuid() != 0:
        found = f"your umask is {mask:03o}: what you make there, you cannot open yourself"
        raise LabError("a folder of yours for running labs", found, "umask 022, then start again")


def is_mine(path: Path) -> bool:
    """Whether this user owns it, and the link to it if it is one."""
    return {path.lstat().st_uid, path.stat().st_uid} == {os.geteuid()}


def write(file: Path, text: str, mode: int = 0o666) -> None:
    """Make a file say that, all at once for whoever reads. LabError if there is no room for it.

    It is written beside its place, under a name that nobody can know before: a link that another user has put
    there would lead to a file of this one's. A link in its place is replaced, and not followed.
    """
    scratch = file.with_name(f".{secrets.token_hex(8)}.new")
    try:
        made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(made, "w", encoding="utf-8") as opened:
            opened.write(text)
        scratch.replace(file)
    except OSError as error:
        with suppress(OSError):  # it is not there, or nothing can be written any more
            scratch.unlink()
        raise LabError(f"{file.name} written into {file.parent}", str(error), "make room there") from None


def shut_in() -> None:
    """From now on no other process of this user reads this one's memory, or takes its sockets."""
    if sys.platform == "linux":
        from ctypes import CDLL

        PR_SET_DUMPABLE = 4
        CDLL(None).prctl(PR_SET_DUMPABLE, 0)
