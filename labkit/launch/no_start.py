"""Why ranks did not come up, in a sentence that a newcomer can act on, from what they said last."""

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

from labkit.launch.preflight import judge

UNKNOWN = "run `labkit doctor` in a terminal, which says what this machine lacks"
"""The fix where the last lines are no known story."""
_IMPORT = re.compile(r"^(?:\w*ImportError|ModuleNotFoundError|AttributeError): (.*)$", re.M)
_LACKING = re.compile(r"No module named '([\w.]+)'$")
_NO_FILES = re.compile(r"Too many open files|\bEMFILE\b", re.I)
_NO_PROCESSES = re.compile(r"Resource temporarily unavailable|can't start new thread", re.I)
SHARED_MEMORY = Path("/dev/shm")
TASKS_PER_RANK, TASKS = 16, 60
"""Processes and threads that a rank takes at most, and what a lab and a kernel take beside its ranks."""
_NO_MEMORY = re.compile(r"MemoryError|Cannot allocate memory|Out of memory|ENDED: -9\b", re.I)


def why(said: str, folder: Path) -> tuple[str, str]:
    """(found, fix), empty and UNKNOWN if the story is not known; `folder` is where the ranks were started.

    >>> why("ModuleNotFoundError: No module named 'scipy'", Path("/nowhere"))[0]
    'the ranks lack the module scipy'
    """
    if "Bus error" in said:
        return "the ranks' shared memory is full", judge.MORE_SHARED_MEMORY
    for words in reversed(_IMPORT.findall(said)):
        hidden = [name for name in re.findall(r"'(\w+)(?:\.[\w.]+)?'", words) if _hides(folder, name)]
        if hidden:
            file = folder / f"{hidden[0]}.py"
            return f"{file.name} in {folder} hides the module {hidden[0]}", f"rename {file.name}"
        if lacking := _LACKING.search(words):
            name = lacking[1].partition(".")[0]
            return f"the ranks lack the module {name}", f"{sys.executable} -m pip install {name}"
    if _NO_FILES.search(said):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"a program of yours may have {files} files open at once, and a lab needs more",
            "ulimit -n 1024",
        )
    if _NO_MEMORY.search(said):
        return "there was not enough memory for so many ranks", "ask for fewer, or close other notebooks"
    return "", UNKNOWN


def here(said: str, ranks: int) -> tuple[str, str]:
    """(found, fix) of what this machine does not let this user do; empty if it is nothing known.

    Asked after a start has failed: where ranks come up all the same, there is nothing to refuse.
    """
    if SHARED_MEMORY.is_dir() and not _takes_files(SHARED_MEMORY):
        fix = f"as root: mount -o remount,rw {SHARED_MEMORY}; chmod 1777 {SHARED_MEMORY}"
        return f"this user cannot write into {SHARED_MEMORY}, where ranks have their shared memory", fix
    most, least = resource.getrlimit(resource.RLIMIT_NPROC)[0], TASKS + TASKS_PER_RANK * ranks
    tight = 0 <= most < least and os.geteuid() != 0
    if tight or (most != resource.RLIM_INFINITY and _NO_PROCESSES.search(said)):
        found = f"this user may have {most} processes and threads at once, and {ranks} ranks may take {least}"
        return found, f"ulimit -u {max(4096, 2 * least)}, or ask whoever runs this machine"
    return "", ""


def _takes_files(folder: Path) -> bool:
    """Whether this user can make a file there; a mount that is for reading says so only if it is tried."""
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDWR | getattr(os, "O_TMPFILE", 0), 0o600))
        return True
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def _hides(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file()
