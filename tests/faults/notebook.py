"""Play a history as a notebook does, in this process, and hold it to what labkit promises."""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager

import psutil
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labkit import LabError
from labkit.lab.outcome import CellError
from labkit.lab.remote import crowded
from labkit.launch import processes, witness

from .histories import INTERRUPT, KILL, RANK, STOP, History, Step, Strike, start

NEXT_RIGHT = 10.0
"""Seconds in which the next right cell must be right, with new ranks if need be."""
LONGEST = 45.0
"""Seconds in which any other cell must have ended."""
RIGHT_CELL = """%%px --out answers
import torch, torch.distributed as dist
from mpi4py import MPI
rank, world_size = dist.get_rank(), dist.get_world_size()
x, y = torch.full((1000,), rank + 1.0), torch.zeros(3)
dist.all_reduce(x)
messages = [dist.isend(torch.full((3,), rank + 7.0), dst=(rank + 1) % world_size),
            dist.irecv(y, src=(rank - 1) % world_size)] if world_size > 1 else []
for message in messages:
    message.wait()
total = world_size * (world_size + 1) / 2
summed = set(x.tolist()) == {total} and MPI.COMM_WORLD.allreduce(rank + 1) == total
left = (rank - 1) % world_size
came = world_size == 1 or y.tolist() == [left + 7.0] * 3
came = came and MPI.COMM_WORLD.sendrecv(rank, (rank + 1) % world_size, source=left) == left
print("right" if summed and came else (x, y))"""


class Broken(Exception):
    """What labkit promises and did not keep."""


def play(history: History) -> None:
    """Live through it; Broken at the first step after which a promise is not kept."""
    os.environ |= {"LABKIT_CHECK": str(int(history.checked)), "LABKIT_SPARE": str(int(history.spare))}
    notebook = Notebook()
    notebook.must_end_well(start(history))
    notebook.next_right_cell(start(history), deadly=False)
    deadly = False
    for step in history.steps:
        notebook.run(step)
        deadly |= step.deadly  # a process that is stopped may be missed only later
        deadly &= not notebook.next_right_cell(start(history), deadly)
    if history.end == STOP:
        notebook.must_end_well("lab.stop()")
    print(history.end, flush=True)
    if history.end == KILL:
        os.kill(os.getpid(), signal.SIGKILL)


class Notebook:
    """An IPython session like a kernel's: cells are interrupted while they run, and only then."""

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance()
        self.shell.history_manager.enabled = False
        self.shell.showtraceback = lambda *args, **kwargs: None
        self.began, self._busy, self._unseen = time.monotonic(), False, []
        self.struck: set[str] = set()
        signal.signal(signal.SIGINT, self._on_interrupt)
        threading.excepthook = lambda told: self._unseen.append(f"in a thread: {told.exc_value!r}")
        sys.unraisablehook = self._on_unraisable

    def run(self, step: Step) -> BaseException | None:
        """Run a cell; what it raised, which is nothing but what a user may see."""
        began = time.monotonic()
        self.struck |= {strike.victim for strike in step.strikes}
        with befalling(step.strikes), self._watched(step.source):
            error = self._run(step.source)
        seconds = time.monotonic() - began
        self._tell("the right cell" if step.source == RIGHT_CELL else repr(step.source), seconds, error)
        if not isinstance(error, LabError | CellError | KeyboardInterrupt | SyntaxError | None):
            raise Broken(f"{type(error).__name__} reached the user: {error}") from error
        if seconds > LONGEST * crowded():
            raise Broken(f"the cell took {seconds:.1f} s")
        if self._unseen:
            raise Broken(", ".join(self._unseen))
        if "mpiexec died" in str(error) and not self.struck & {"mpiexec", "witness"}:
            raise Broken(f"told of mpiexec, which nobody ended: {error}")
        return error

    def must_end_well(self, source: str) -> None:
        error = self.run(Step(source))
        if error:
            raise Broken(f"{source!r} raised {error!r}") from error

    def next_right_cell(self, first: str, deadly: bool) -> bool:
        """It is right at once; or, if ranks may be lost, as soon as new ones were started, as it says.

        Whether it took new ones.
        """
        began = time.monotonic()
        error = self.run(Step(RIGHT_CELL)) if "lab" in self.shell.user_ns else KeyboardInterrupt()
        if anew := bool(error and deadly):
            self.must_end_well("lab.restart()" if "lab" in self.shell.user_ns else first)
            error = self.run(Step(RIGHT_CELL))
        if error:
            raise Broken(f"the next right cell failed: {error}") from error
        said = self.shell.user_ns.pop("answers").stdout
        if said != ["right\n"] * len(self.shell.user_ns["lab"]):
            raise Broken(f"the next right cell is wrong: {said}")
        seconds = time.monotonic() - began
        print(f"right again after {seconds:.2f} s", flush=True)
        if seconds > NEXT_RIGHT * crowded():
            raise Broken(f"the next right cell took {seconds:.1f} s")
        return anew

    def _run(self, source: str) -> BaseException | None:
        try:
            self._busy = True
            with capture_output():
                result = self.shell.run_cell(source)
            self._busy = False
            return result.error_in_exec or result.error_before_exec
        except KeyboardInterrupt as interrupt:
            return interrupt
        finally:
            self._busy = False

    def _on_interrupt(self, *_: object) -> None:
        if self._busy:
            raise KeyboardInterrupt

    def _on_unraisable(self, told: "sys.UnraisableHookArgs") -> None:
        """An interrupt in a callback of Python's or a library's is lost; in one of ours it must not be."""
        names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(told.exc_traceback)]
        ours = any(name.split(".")[0] == "labkit" for name in names)
        if ours or not isinstance(told.exc_value, KeyboardInterrupt):
            self._unseen.append(f"unraisable in {told.object!r}, {names}: {told.exc_value!r}")

    @contextmanager
    def _watched(self, source: str):
        """A cell that never ends shows where every thread is, and ends the notebook."""
        faulthandler.dump_traceback_later(2 * LONGEST * crowded(), exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _tell(self, what: str, seconds: float, error: BaseException | None) -> None:
        found = error.found if isinstance(error, LabError) else str(error or "")
        outcome = f"{type(error).__name__} {found[:100]!r}" if error else "done"
        print(f"{time.monotonic() - self.began:6.1f} s: {what} took {seconds:.2f} s: {outcome}", flush=True)


@contextmanager
def befalling(strikes: tuple[Strike, ...]):
    """Let them happen at their moments of the block; none after it."""
    timers = [threading.Timer(strike.after, happen, [strike]) for strike in strikes]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for timer in timers:
            timer.join()


def happen(strike: Strike) -> None:
    """Now; nothing if there is no such process at this moment."""
    if strike.victim == INTERRUPT:
        print("SIGINT to the notebook", file=sys.__stdout__, flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        return
    there = [p for p in of_labs(os.environ["JUPYTER_RUNTIME_DIR"]) if kind(p) == strike.victim]
    if there:
        victim = there[strike.which % len(there)]
        try:
            victim.send_signal(getattr(signal, strike.signal))
            print(f"{strike.signal} to {strike.victim} {victim.pid}", file=sys.__stdout__, flush=True)
        except psutil.Error:
            pass  # it has just ended


def of_labs(runtime: str) -> list[psutil.Process]:
    """All processes of the labs that have their folders there."""
    return [process for process in processes.of_any_lab() if _runtime(process) == runtime]


def kind(process: psutil.Process) -> str:
    """What it is to its lab; ranks are forked of their server, and look like it."""
    signs = {
        "ipyparallel.controller": "controller",
        "labkit.launch.keeper": "keeper",
        "labkit.rank.forkserver": "fork server",
        witness.__file__: "witness",
    }
    try:
        words, parent = process.cmdline(), process.parent()
        found = next((name for sign, name in signs.items() if sign in words), process.name())
        if found == "fork server" and parent and "labkit.rank.forkserver" in parent.cmdline():
            return RANK
        return "mpiexec" if found.startswith("mpiexec") else found
    except psutil.Error:
        return ""


def _runtime(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("JUPYTER_RUNTIME_DIR")
    except psutil.Error:
        return None
