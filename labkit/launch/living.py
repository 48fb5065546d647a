"""A process known for certain, by its pid and its start time, and what it does now.

A pid alone may be another process's by the time that it is used.
"""

import sys

import psutil


def started(process: psutil.Process) -> float:
    """When it started: on Linux in ticks since the boot, for all else changes when somebody sets the clock.

    Raises psutil.NoSuchProcess.
    """
    return _stat(process.pid)[1] if sys.platform == "linux" else process.create_time()


def _stat(pid: int) -> tuple[str, float]:
    """Of a process on Linux the letter for what it does and when it started, at one look. NoSuchProcess."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            after_name = file.read(4096).rpartition(b")")[2]
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    fields = after_name.split()  # the 3rd to the last of proc(5)
    return fields[0].decode(), float(fields[19])


def identity(process: psutil.Process) -> str:
    """Pid and start time, as text that `parse` reads."""
    return f"{process.pid} {started(process)!r}"


def parse(identity: str) -> psutil.Process | None:
    """The process of that pid and start time, or None if it is gone."""
    pid, then = identity.split()
    try:
        process = psutil.Process(int(pid))
        return process if started(process) == float(then) else None
    except psutil.Error:
        return None


def is_alive(process: psutil.Process | None) -> bool:
    """Whether this very process (pid and start time) still runs."""
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def status(process: psutil.Process | None) -> str:
    """What a process that was just found does, as psutil has it; STATUS_DEAD for a zombie, and for None."""
    try:
        told = psutil.STATUS_DEAD if process is None else process.status()
    except psutil.Error:
        return psutil.STATUS_DEAD
    return psutil.STATUS_DEAD if told == psutil.STATUS_ZOMBIE else told


def told(identity: str) -> str:
    """What a process does: STATUS_DEAD if it is gone or "", STATUS_STOPPED if suspended, else STATUS_RUNNING.

    On Linux at one look: each cell asks this of all processes of its lab.
    """
    if not identity:
        return psutil.STATUS_DEAD
    if sys.platform != "linux":
        found = status(parse(identity))
        return found if found in (psutil.STATUS_DEAD, psutil.STATUS_STOPPED) else psutil.STATUS_RUNNING
    pid, then = identity.split()
    try:
        letter, since = _stat(int(pid))
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD
    if since != float(then) or letter in "ZX":
        return psutil.STATUS_DEAD
    return psutil.STATUS_STOPPED if letter == "T" else psutil.STATUS_RUNNING


def is_stopped(process: psutil.Process | None) -> bool:
    """Whether it lives and is suspended, as by SIGSTOP."""
    return status(process) == psutil.STATUS_STOPPED
