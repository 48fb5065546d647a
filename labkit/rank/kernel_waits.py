"""What this process waits for in the kernel, and whoever could end that, where the system tells."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from typing import Any

import psutil

_own_threads: frozenset[int] = frozenset()  # those that serve the notebook


def install() -> None:
    """Take the threads that run now for those that serve the notebook."""
    global _own_threads
    _own_threads = frozenset(_threads())


def bytes_moved() -> tuple[str, ...]:
    """What the main thread has read and written so far, where the system tells."""
    with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/io") as file:
        return tuple(line for line in file if line.startswith(("rchar", "wchar")))
    return ()


def uses_a_disk() -> bool:
    with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "D"
    return False


def threads_act() -> bool:
    """Whether a thread that cells have begun does anything but wait for a lock."""
    for thread in _threads():
        if thread not in _own_threads and thread != os.getpid():
            number, *arguments = _system_call(thread) or (-1,)
            if not _waits_for_a_lock(number, arguments):
                return True
    return False


_FUTEX, _READ, _RECEIVE, _LOCK, _CONTROL = {
    "x86_64": ((202,), (0,), (45, 47), (73,), (72,)),
    "aarch64": ((98,), (63,), (207, 212), (32,), (25,)),
}.get(os.uname().machine, ((), (), (), (), ()))
_FUTEX_WAITS = (0, 9)  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_LOCK_WAITS = (7, 38)  # F_SETLKW, F_OFD_SETLKW


def wait(since: float) -> dict[str, Any] | None:
    """What the main thread waits for there, if nobody but this process and those told could end it."""
    number, *arguments = _system_call(os.getpid()) or (-1,)
    if _waits_for_a_lock(number, arguments):
        return {"wants": "a lock of its own"}
    if number in _READ + _RECEIVE:
        holders = _at_the_other_end(arguments[0], since)
        return {"wants": "data", "holders": holders} if holders else None
    if number in _LOCK or (number in _CONTROL and arguments[1] in _LOCK_WAITS):
        return held(arguments[0])
    return None


def held(file: int | str) -> dict[str, Any] | None:
    """What is told of a wait for the lock of a file."""
    with suppress(OSError):
        holders = _who_has_locked(os.stat(file))
        return {"wants": "a file lock", "holders": holders} if holders else None
    return None


def _system_call(thread: int) -> tuple[int, ...] | None:
    """Its number and its arguments; None if the thread runs, or if the system does not tell."""
    with suppress(OSError, ValueError), open(f"/proc/self/task/{thread}/syscall") as file:
        number, *arguments = file.read().split()
        return (int(number), *(int(argument, 16) for argument in arguments))
    return None


def _waits_for_a_lock(number: int, arguments: list[int]) -> bool:
    """Without a limit of time."""
    return number in _FUTEX and arguments[1] & 127 in _FUTEX_WAITS and arguments[3] == 0


def has_children() -> bool:
    """Whether any process lives that a cell has begun."""
    helpers = {
        getattr(resource_tracker._resource_tracker, "_pid", None),
        getattr(forkserver._forkserver, "_forkserver_pid", None),
    }
    with suppress(psutil.Error):
        children = psutil.Process().children(recursive=True)
        return any(c.pid not in helpers and c.status() != psutil.STATUS_ZOMBIE for c in children)
    return True


def _threads() -> list[int]:
    with suppress(OSError):
        return list(map(int, os.listdir("/proc/self/task")))
    return []


@lru_cache(1)  # to look through all processes takes much longer than all else here
def _at_the_other_end(descriptor: int, since: float) -> tuple[int, ...]:
    """The processes that can write what is read from a pipe, or from a socket to this machine."""
    with suppress(OSError):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if name.startswith("pipe:"):
            return tuple(_holders(name, writing=True))
        if name.startswith("socket:") and (peer := _peer(name[len("socket:[") : -1])):
            return tuple(_holders(f"socket:[{peer}]"))
    return ()


def _peer(inode: str) -> str | None:
    """The other socket of a connection within this machine."""
    ends: dict[tuple[str, str], str] = {}
    mine = None
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/self/net/{table}") as file:
            for line in islice(file, 1, None):
                _, local, remote, *_, its = line.split()[:10]
                ends[local, remote] = its
                mine = (local, remote) if its == inode else mine
    return mine and ends.get(mine[::-1])


def _holders(name: str, writing: bool = False) -> Iterator[int]:
    """The processes that have that open, as far as this one may look at them."""
    for pid in psutil.pids():
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                link = f"/proc/{pid}/fd/{descriptor}"
                if os.readlink(link) == name and (not writing or os.lstat(link).st_mode & 0o200):
                    yield pid
                    break


def _who_has_locked(file: os.stat_result) -> tuple[int, ...]:
    where = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError), open("/proc/locks") as locks:
        held: Iterable[list[str]] = (line.split() for line in locks if "->" not in line)
        return tuple({int(words[4]) for words in held if words[5] == where})
    return ()
