"""Which processes belong to a lab, and how they are ended: only ours, never a pid that was reused.

Every process that a lab starts carries the lab's name in its environment, and so do the processes
that those start. A `psutil.Process` remembers the start time beside the pid, so a signal can only
reach the process that was found.
"""

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from labkit.launch import living, mpi_files
from labkit.launch.interrupts import interrupts_held

MARK = "LABKIT_LAB"
LOOK_AFTER = 0.1
"""Seconds between two looks at which files the ranks of a script have open."""
KEEPER = "labkit.launch.keeper"
ENDS_WITH_OWNER = (KEEPER, "labkit.launch.spare_maker")
"""Modules whose processes see by themselves that the lab's owner is gone, and then end it."""
STANDS_STILL = 0.1
"""Seconds in which a process does what it does in the kernel before it stands still."""


def begin(
    module: list[str], lab_id: str, environment: dict[str, str] | None = None, **files: Any
) -> subprocess.Popen:
    """Start a process of a lab, which runs a module of labkit with arguments; it is silent but in `files`."""
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        env=os.environ | (environment or {}) | {MARK: lab_id},
        start_new_session=True,  # an interrupt of the owner must not reach it
        **silent | files,
    )


def of_lab(lab_id: str, module: str = "") -> list[psutil.Process]:
    """All living processes of one lab on this host, the keeper included; or those that run `module`."""
    return [p for p, lab in _marked() if lab == lab_id and (not module or _runs(p, module))]


def of_any_lab() -> list[psutil.Process]:
    """All living processes of all labs of this user on this host."""
    return [process for process, _ in _marked()]


def _marked() -> Iterator[tuple[psutil.Process, str]]:
    for process in psutil.process_iter():
        try:
            if _namespace(process.pid) != _namespace():
                continue  # a container's, or a host's inside this machine: it ends its own
            lab = process.environ().get(MARK)
            if lab and process.uids().real == os.getuid() and process.status() != psutil.STATUS_ZOMBIE:
                yield process, lab
        except (psutil.Error, OSError):
            continue  # another user's, or gone since


def said(process: psutil.Process) -> str:
    """What it runs: a module of Python's, or else its name; "" if it is gone."""
    try:
        words = process.cmdline()
        return words[words.index("-m") + 1] if "-m" in words[:-1] else process.name()
    except psutil.Error:
        return ""


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.Error:
        return False


def _namespace(pid: int | str = "self") -> str:
    """Which pid namespace a process lives in; "" where there are none."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except FileNotFoundError:
        return ""


def here() -> str:
    """The name of this machine, and of the part of it whose processes are seen from here."""
    return f"{platform.node()} {_namespace()}"


def wait(mpiexec: subprocess.Popen, timeout: float | None = None) -> int:
    """Until it ends: its exit code. What its MPI has made goes with it, if ranks die before they can tidy up.

    Raises subprocess.TimeoutExpired after `timeout` seconds.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    found: set[Path] = set()
    try:
        while True:
            try:
                return mpiexec.wait(min(LOOK_AFTER, max(0.0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise
            with suppress(psutil.Error):  # it has ended since
                ranks = psutil.Process(mpiexec.pid).children(recursive=True)
                found |= mpi_files.held_by(rank.pid for rank in ranks)
    finally:
        mpi_files.remove(found)


@interrupts_held()  # what is suspended must be ended, too
def end(processes: list[psutil.Process], grace: float = 1.0) -> list[psutil.Process]:
    """Ask with SIGTERM, wait `grace` seconds, then SIGKILL. Returns what is alive even so.

    What their MPI has made goes with them. Nobody makes more while that is looked up.
    """
    _suspend(processes)
    left = mpi_files.held_by(process.pid for process in processes)
    _signal(processes, "terminate")
    _signal(processes, "resume")
    alive = _wait(processes, grace)
    _suspend(alive)
    left |= mpi_files.held_by(process.pid for process in alive)
    _signal(alive, "kill")
    alive = _wait(alive, 2.0)
    mpi_files.remove(left)
    return alive


@interrupts_held()
def end_lab(lab_id: str, grace: float = 1.0, spare: tuple[int, ...] = ()) -> None:
    """End every process of a lab, and those that it started meanwhile."""
    for _ in range(3):
        found: list[psutil.Process] = []
        # A fork server that is asked for a rank makes it before it stands still: then there is one more.
        while new := [p for p in of_lab(lab_id) if p.pid not in spare and p not in found]:
            _suspend(new)
            found += new
        if not found:
            return
        end(found, grace)
        grace = 0.0  # what appears after the first round was started by something that is gone


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that are alive even then. A container's first process may never reap the dead."""
    deadline = time.monotonic() + seconds
    while (alive := [p for p in processes if living.is_alive(p)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    psutil.wait_procs(processes, timeout=0)  # reaps our own children
    return alive


def _suspend(processes: list[psutil.Process]) -> None:
    """Let them stand still; but not those who would end the others if this process were ended here."""
    still = [p for p in processes if not any(_runs(p, module) for module in ENDS_WITH_OWNER)]
    _signal(still, "suspend")
    deadline = time.monotonic() + STANDS_STILL
    while any(living.is_alive(p) and not living.is_stopped(p) for p in still) and time.monotonic() < deadline:
        time.sleep(0.001)


def _signal(processes: list[psutil.Process], how: str) -> None:
    for process in processes:
        try:
            getattr(process, how)()
        except psutil.Error:
            pass  # it went first
