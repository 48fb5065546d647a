"""How a test starts ranks: this environment's own mpiexec, with the quirks of whichever MPI it is."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from labkit import LabError
from labkit.launch import find_mpi, processes

PACKAGE_ROOT = Path(__file__).resolve().parents[__package__.count(".") + 1]
REPOSITORY = Path(__file__).resolve().parents[2]
BACKEND = os.environ.get("LABKIT_TEST_BACKEND", "mpi")


def mpiexec() -> str | None:
    """The launcher of this environment, or None."""
    try:
        return find_mpi().mpiexec
    except LabError:
        return None


@dataclass(frozen=True)
class Finished:
    """What a set of ranks left behind."""

    code: int | None
    output: str
    seconds: float
    timed_out: bool


def environment(**extra: str) -> dict[str, str]:
    """What every rank inherits; one thread each, for the ranks already outnumber the cores."""
    path = os.pathsep.join(
        [str(PACKAGE_ROOT), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    base = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=path, PYTHONFAULTHANDLER="1")
    base.pop("LABKIT_CHECK", None)
    base.update(find_mpi().environment())
    return base | extra


def end_with_parent() -> None:
    """A test run that is killed takes its ranks along; where the system is not Linux it cannot."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def start(ranks: int, argv: list[str], output: Path, **extra: str) -> subprocess.Popen:
    """Start `python *argv` on every rank in a session of its own, so that all of it can be ended."""
    command = [mpiexec(), "-n", str(ranks), sys.executable, *argv]
    with output.open("wb") as sink:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment(**extra),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def end(process: subprocess.Popen, grace: float = 30.0) -> None:
    """TERM lets mpiexec end its ranks, which it started in sessions of their own; KILL follows."""
    for sign, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(wait)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def run(ranks: int, argv: list[str], output: Path, timeout: float, **extra: str) -> Finished:
    """Start ranks, wait for them, end them when the time is up."""
    began = time.monotonic()
    process = start(ranks, argv, output, **extra)
    timed_out = False
    try:
        processes.wait(process, timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        end(process)
    text = output.read_text(errors="replace")
    return Finished(process.returncode, text, time.monotonic() - began, timed_out)
