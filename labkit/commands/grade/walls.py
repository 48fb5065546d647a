"""What an answer can see of the machine, as bubblewrap's command: what labkit needs, and nothing else.

Inside there is no network but a loopback of its own, no file, process or key of anybody's, and all that it
writes is in memory of a fixed size.
"""

from __future__ import annotations

import os
import secrets
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import labkit
from labkit import launch
from labkit.commands.grade import veil
from labkit.exercises import course
from labkit.exercises.course import COURSE, DATA
from labkit.launch import keyless

MB = 2**20
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


def command(bwrap: str, program: Sequence[str], limits: Limits, hidden: Sequence[Path]) -> list[str]:
    """The command that runs the program between these walls."""
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
        link = os.path.islink(path) and (path in SYSTEM or path.startswith("/etc/"))  # as /lib to /usr/lib
        walls += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    there, out_of_sight = ({str(Path(path).resolve()) for path in paths} for paths in (seen, hidden))
    for path in sorted(out_of_sight):
        if _below(path, [*there]) and not _below(path, [*out_of_sight - {path}]):
            walls += ["--tmpfs", path, "--remount-ro", path]
    for place, file in veil.files().items():
        walls += ["--ro-bind", str(file), place]
    for told in keyless.TOLD:
        walls += ["--ro-bind", "/dev/null", told] if os.path.exists(told) else []
    walls += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    return keyless.command(bwrap, *walls, "--", *(_as_nobody() if root else []), *program)


def _as_nobody() -> list[str]:
    """Root in a namespace is still root, whom no limit on processes stops."""
    who = FIRST_UID + secrets.randbelow(2**20)
    return ["setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all"]  # fmt: skip


def _seen() -> list[str]:
    """What can be read inside: the system's programs, Python with its packages, MPI, labkit, a course."""
    paths, mpi = sysconfig.get_paths(), str(_mpi().parent)
    needed = [sys.prefix, sys.base_prefix, sys.exec_prefix, mpi]
    needed = [
        part for path in dict.fromkeys(needed) for part in (_installed(path) if _is_home(path) else [path])
    ]
    needed += [paths["purelib"], paths["platlib"], *(path for path in sys.path if path.endswith("-packages"))]
    needed += [str(Path(labkit.__file__).parent), *map(str, _of_course())]
    system = [path for path in (*SYSTEM, *(f"/etc/{name}" for name in SETTINGS)) if os.path.exists(path)]
    mine = [path for path in dict.fromkeys(needed) if os.path.exists(path) and not _below(path, system)]
    return [*system, *(path for path in mine if not _below(path, [p for p in mine if p != path]))]


def _is_home(path: str) -> bool:
    """Whether more than programs lies there, as where pip has installed for a user alone."""
    home = Path.home().resolve()
    return home.is_relative_to(Path(path).resolve()) or Path(path).resolve() == home / ".local"


def _installed(prefix: str) -> list[str]:
    """Of such a folder: its Python, and the files that pip has put there for MPI."""
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    programs = sorted(Path(prefix, "bin").glob("python*"))
    found = [
        Path(prefix, "pyvenv.cfg"),
        *programs,
        Path(prefix, library),
        *Path(prefix, "lib").glob("libpython*"),
    ]
    for package in metadata.distributions():
        if "mpi" in (package.name or "").lower():
            files = (Path(os.path.abspath(str(package.locate_file(file)))) for file in package.files or ())
            found += [file for file in files if file.is_relative_to(prefix)]
    return [str(path) for path in found if path.exists()]


def _of_course() -> list[Path]:
    """The files of a course, of whose folder nothing else is seen: a learner's answers may lie in it, or
    grades."""
    found = course.current()
    if found is None:
        return []
    named = {found.data.stem, found.data.name} if found.data else set()
    beside = [p for p in found.file.parent.iterdir() if {p.name, p.stem} & named and not p.is_symlink()]
    return [found.file, *found.own, *map(course.description, found.own), *sorted(beside)]


def _below(path: str, others: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(other) for other in others)


def _mpi() -> Path:
    """The folder of mpiexec."""
    return Path(launch.find_mpi().mpiexec).parent


def environment() -> dict[str, str]:
    """Nothing of the teacher's, in whose environment there may be keys."""
    folders = [str(Path(sys.executable).parent), str(_mpi()), "/usr/local/bin", "/usr/bin", "/bin"]
    names = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", COURSE, DATA)
    kept = {name: os.environ[name] for name in names if os.environ.get(name)}
    mine = {"HOME": "/tmp", "PATH": os.pathsep.join(folders)}
    mine |= {"PYTHONPATH": str(Path(labkit.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | mine | {"LABKIT_SPARE": "0"}
