"""A place for one answer, by bubblewrap: of the machine only what labkit needs, and limits on all of it.

Inside there is no network but a loopback of its own, no file of anybody's, no process of anybody's, and all
that it writes is in memory of a fixed size. When its time is over, the kernel ends everything that it began.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

import labkit
from labkit import LabError
from labkit.exercises.course import COURSE, DATA

MB = 2**20
LOOK_EVERY = 0.1
"""Seconds between two looks at what is used inside."""
LONGEST = 64 * 1024
"""Bytes that are read of what comes out."""
RESERVE = 0.05
"""The part of the machine's memory that must stay free, whoever uses it."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "hosts",
    "nsswitch.conf",
)
"""What is needed of /etc: where libraries are, and that localhost is this machine."""
FIRST_UID = 2**30
"""Where root grades, each answer runs as a user of its own from here on, whom no system has."""


@dataclass(frozen=True)
class Limits:
    """What one answer may take: seconds, MB of memory and of files, processes and threads."""

    seconds: float = 180.0
    memory: int = 4096
    disk: int = 256
    processes: int = 512


@dataclass(frozen=True)
class Ended:
    """What came out, and which limit was reached; "" if none."""

    said: str
    over: str = ""


def require() -> str:
    """The bwrap of this machine, tried. LabError if answers cannot be shut in here."""
    asked, fix = "answers graded in a sandbox", "apt install bubblewrap, or dnf install bubblewrap"
    risk = "; or --no-sandbox, which runs them as you, with your files and your network"
    if not sys.platform.startswith("linux"):
        raise LabError(asked, f"there is none for {sys.platform}", f"grade on Linux{risk}")
    found = shutil.which("bwrap")
    if not found:
        raise LabError(asked, "bwrap, of the package bubblewrap, is not here", f"{fix}{risk}")
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        raise LabError(
            asked, "root needs setpriv, of util-linux, to run them as nobody", f"grade as a user{risk}"
        )
    tried = subprocess.run(
        _command(found, ["true"], Limits(), ()), capture_output=True, text=True, env={}, timeout=30
    )
    if tried.returncode:
        said = tried.stderr.strip().splitlines() or ["it said nothing"]
        fix = "let this user make namespaces (user.max_user_namespaces, AppArmor)"
        raise LabError(asked, f"bwrap does not work here: {said[-1]}", f"{fix}{risk}")
    return found


def run(bwrap: str, program: Sequence[str], given: str, limits: Limits, hidden: Sequence[Path] = ()) -> Ended:
    """Run it with `given` on its standard input; `hidden` folders are empty for it wherever they lie.

    With "" for `bwrap` there are no walls round it, only limits.
    """
    command = _command(bwrap, program, limits, hidden) if bwrap else list(program)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment() if bwrap else None,
        start_new_session=not bwrap,
        cwd="/" if bwrap else None,
    )
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.read(LONGEST)), daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(given.encode())
            process.stdin.close()
        over = _watch(process, reader, limits)
    finally:
        _end(process)
    reader.join(10)
    return Ended(b"".join(said).decode(errors="replace"), over)


def _watch(process: subprocess.Popen, reader: threading.Thread, limits: Limits) -> str:
    """Until it has said what it has to say; which limit it has reached first, or ""."""
    begun, first = time.monotonic(), psutil.virtual_memory()
    while reader.is_alive() and process.poll() is None:
        reader.join(LOOK_EVERY)
        inside = _descendants(process)
        if time.monotonic() - begun > limits.seconds:
            return f"more than {limits.seconds:g} s"
        if len(inside) > limits.processes:
            return f"more than {limits.processes} processes"
        now, most = psutil.virtual_memory(), limits.memory * MB
        hidden = getattr(now, "shared", 0) - getattr(first, "shared", 0)  # files that only descriptors have
        if max(hidden, sum(map(_memory, inside))) > most or now.available < RESERVE * now.total:
            return f"more than {limits.memory} MB of memory"
    return ""


def _descendants(process: subprocess.Popen) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    return []


def _memory(pid: int) -> int:
    """Bytes that only memory holds, its own and shared; the files of libraries are everybody's."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))
    return 0


def _end(process: subprocess.Popen) -> None:
    """With bwrap its first process dies, and the kernel ends whatever was begun inside, at once."""
    for pid in [*_descendants(process), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    process.wait(30)


def _command(bwrap: str, program: Sequence[str], limits: Limits, hidden: Sequence[Path]) -> list[str]:
    root = os.geteuid() == 0
    walls = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    walls += [] if root else ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    walls += ["--die-with-parent", "--new-session", "--hostname", "lab", "--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/dev/shm"):
        walls += ["--perms", "1777", "--size", str(limits.disk * MB), "--tmpfs", place]
    seen = _seen()
    above = {parent: None for path in seen for parent in [*Path(path).parents][-2::-1]}
    for folder in above:  # or else only root could look into them
        walls += ["--perms", "0755", "--dir", str(folder)]
    for path in seen:
        link = os.path.islink(path) and path.startswith((*SYSTEM, "/etc/"))  # as /lib to /usr/lib
        walls += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    for folder in map(Path.resolve, hidden):
        if any(folder.is_relative_to(Path(path).resolve()) for path in seen):
            walls += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    walls += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    return [bwrap, *walls, "--", *(_as_nobody() if root else []), *program]


def _as_nobody() -> list[str]:
    """Root in a namespace is still root, whom no limit on processes stops."""
    who = FIRST_UID + secrets.randbelow(2**20)
    return ["setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all"]  # fmt: skip


def _seen() -> list[str]:
    """What can be read inside: the system's programs, this Python with its packages, and labkit."""
    paths = sysconfig.get_paths()
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, paths["purelib"], paths["platlib"]]
    packages = [path for path in sys.path if path.endswith("-packages")]
    course = [str(Path(os.environ[COURSE]).parent)] if os.environ.get(COURSE) else []
    found = dict.fromkeys([*python, *packages, str(Path(labkit.__file__).parent), *course])
    asked = [*SYSTEM, *(f"/etc/{name}" for name in SETTINGS)]
    system = [path for path in asked if os.path.exists(path)]
    mine = [path for path in found if os.path.isdir(path) and not path.startswith(("/usr/", "/lib"))]
    outer = [p for p in mine if not any(p != other and Path(p).is_relative_to(other) for other in mine)]
    return [*system, *(path for path in outer if path != "/usr")]


def _environment() -> dict[str, str]:
    """Nothing of the teacher's, in whose environment there may be keys."""
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "LD_LIBRARY_PATH") if name in os.environ}
    kept |= {name: os.environ[name] for name in (COURSE, DATA) if os.environ.get(name)}
    mine = {"HOME": "/tmp", "PATH": path, "PYTHONPATH": str(Path(labkit.__file__).parents[1])}
    return kept | mine | {"LABKIT_SPARE": "0", "PYTHONDONTWRITEBYTECODE": "1"}
