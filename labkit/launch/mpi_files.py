"""What an MPI leaves on a machine beside processes: files in shared memory.

They have names by which ranks find each other, and an MPI takes those away when a program ends by itself.
A lab's ranks are ended by signals. So they take the names away themselves as soon as all have found each
other, and who ends a lab before that does it for them, even if all ranks are dead by then. What has no name
goes with its last process.
"""

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_BEGIN = (
    "/dev/shm/mpich_shm_",
    "/dev/shm/mpich_vci_",
    "/dev/shm/ucx_shm_posix_",
    "/dev/shm/sm_segment.",
    "/dev/shm/open_mpi.",
    "/dev/shm/Intel_MPI_",
)
SEGMENTS = Path("/proc/sysvipc/shm")
_IPC_SET, _IPC_STAT, _MODE_AT = 1, 2, 20  # of shmctl, whose structure begins with five numbers of 4 bytes


def held_by(pids: Iterable[int]) -> set[Path]:
    """What an MPI has made of such files for these processes: they map them, or hold them open."""
    found = (name for pid in pids for name in _files(pid))
    return {Path(name) for name in found if name.startswith(_BEGIN) and not name.endswith(" (deleted)")}


def orphans(since: float) -> set[Path]:
    """What was made for this user since then, in seconds of the epoch, and belongs to no living process.

    Ranks that are killed before they have found each other leave that, and whose it was nobody can say.
    """
    named = (path for begin in _BEGIN for path in Path(begin).parent.glob(f"{Path(begin).name}*"))
    made = {path for path in named if _is_mine(path, since)}
    return made - held_by(psutil.pids()) if made else set()


def remove(files: Iterable[Path]) -> None:
    """Take their names away, which only their owner can do."""
    for file in files:
        with suppress(OSError):
            file.unlink()


def close_segments() -> None:
    """Let nobody but this user attach to what this process has made of System V's shared memory.

    UCX, on which MPICH may stand, makes it for its user's group, too, who could write over messages.
    """
    try:
        _, *segments = SEGMENTS.read_text().splitlines()
    except (OSError, ValueError):  # no Linux, or not to be read here
        return
    control, told = ctypes.CDLL(None).shmctl, (ctypes.c_ubyte * 256)()
    mode = ctypes.c_uint16.from_buffer(told, _MODE_AT)
    for _, number, _, _, made_by, *_ in map(str.split, segments):
        if int(made_by) == os.getpid() and control(int(number), _IPC_STAT, told) == 0:
            mode.value &= 0o700
            control(int(number), _IPC_SET, told)


def _is_mine(path: Path, since: float) -> bool:
    with suppress(OSError):
        found = path.stat()
        return found.st_uid == os.getuid() and found.st_mtime >= since
    return False


def _files(pid: int) -> Iterable[str]:
    """All files that a process of this user maps or holds open; none where there is no /proc."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            yield line[line.find("/") :]
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield os.readlink(descriptor)
