"""Where running labs have their folders, beside Jupyter's files, and what it means if none can be written."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

from labkit import LabError
from labkit.launch import private

RUNTIME = Path(jupyter_runtime_dir(), "labkit")
"""Where each running lab has a folder of its own, private to the user, named by its id."""
WHERE = "where"
"""In it: of which machine it is, for several may share this place."""

LONGEST = 103
"""Bytes that the name of a Unix socket may have on every system."""


def folder() -> Path:
    """Make RUNTIME, if need be, in a folder of Jupyter's that nobody else enters: tokens lie there."""
    made = private.folder(RUNTIME)
    private.shut(RUNTIME.parent)
    return made


def has_room_for_sockets() -> bool:
    """Whether kernels can have sockets in Jupyter's folder, which only this user enters, instead of ports."""
    named = RUNTIME.parent / f"kernel-{'0' * 36}-ipc-99999"
    return os.name == "posix" and len(os.fsencode(named)) <= LONGEST


def sweep() -> None:
    """Remove sockets of kernels that were killed, and could not do it themselves."""
    for path in filter(Path.is_socket, RUNTIME.parent.glob("kernel-*-ipc-*")):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(str(path))
            except ConnectionRefusedError:  # nobody is there any more
                path.unlink()


def heard_by_others() -> list[str]:
    """Name the running kernels of this user whose output other accounts of this machine can listen to."""
    found = []
    for file in sorted(RUNTIME.parent.glob("kernel-*.json")):
        with suppress(OSError, ValueError, KeyError):
            told = json.loads(file.read_text())
            if told["transport"] == "tcp" and not told.get("curve_publickey"):
                socket.create_connection((told["ip"], told["iopub_port"]), timeout=1).close()
                found.append(file.stem)
    return found


@contextmanager
def with_room() -> Iterator[None]:
    """LabError where the system refuses a file, a process or a socket that a lab needs."""
    try:
        yield
    except OSError as error:
        fix = f"see that {RUNTIME} can be written and has room, or set JUPYTER_RUNTIME_DIR to another folder"
        raise LabError("a lab", f"the system says: {error}", fix) from error
