"""Folders that only this user enters, and files in them that nobody finds half written."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from labkit import LabError


def folder(path: Path) -> Path:
    """The folder at `path`, made if need be; LabError if it is another user's."""
    path.parent.mkdir(parents=True, exist_ok=True)
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


def is_mine(path: Path) -> bool:
    """Whether this user owns it, and the link to it if it is one."""
    return {path.lstat().st_uid, path.stat().st_uid} == {os.geteuid()}


def write(file: Path, text: str, mode: int = 0o666) -> None:
    """Make a file say that, all at once for whoever reads. LabError if there is no room for it."""
    scratch = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        scratch.touch(mode)
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(file)
    except OSError as error:
        with suppress(OSError):  # it is not there, or nothing can be written any more
            scratch.unlink()
        raise LabError(f"{file.name} written into {file.parent}", str(error), "make room there") from None
