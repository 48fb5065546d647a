"""A second set of ranks, prepared while nothing happens, so that new ranks are there at once.

Four imports of torch are seconds of work. So some seconds after a lab became ready a small process
(`labkit.launch.spare_maker`) starts the same ranks again, with a controller and a folder
of their own, and suspends them. `lab.restart()`, and whatever else replaces ranks, resumes and takes them.
They end with the process that has the lab; LABKIT_SPARE=0 does without them.
"""

import os
import pickle
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from labkit.launch import Plan, keeper, living, private, processes, spare_maker
from labkit.launch.engines import Engines
from labkit.launch.runtime import RUNTIME

SPARE = "LABKIT_SPARE"
PER_CORE = 2
"""Ranks per core up to which there is a spare set: more would take long, and much memory."""

QUIET = 5.0
"""Seconds without a cell before the spare set is started."""


class Spare:
    """At most one spare set. While a cell runs it is on hold, so that it takes no time from the ranks."""

    def __init__(self) -> None:
        self._order: spare_maker.Order | None = None
        self._surroundings: tuple = ()
        self._maker: subprocess.Popen | None = None
        self.is_on_hold = False

    def prepare(self, plan: Plan, engines: Engines, pids: tuple[int, ...]) -> None:
        """Begin, where it makes sense; the spare ranks will take as much memory as those of `pids`."""
        self.discard()
        _end_other(engines)
        if not _is_wanted(plan):
            return
        folder, owner = RUNTIME / secrets.token_hex(4), living.identity(psutil.Process())
        private.write(engines.folder / keeper.SPARE, folder.name)
        self._order = spare_maker.Order(plan, folder, owner, pids, QUIET)
        self._surroundings = _surroundings()
        self.is_on_hold = False
        self._maker = subprocess.Popen(
            [sys.executable, "-m", "labkit.launch.spare_maker", pickle.dumps(self._order).hex()],
            env=os.environ | {processes.MARK: folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the owner must not reach it
        )

    def is_ready(self) -> bool:
        """Whether the spare set can be taken now."""
        return self._order is not None and (self._order.folder / spare_maker.READY).exists()

    def hold(self) -> None:
        """The ranks begin to work: what is not ready yet waits."""
        if not self.is_on_hold:
            self._tell(spare_maker.HOLD)
        self.is_on_hold = True

    def release(self) -> None:
        """The ranks are idle again."""
        if self.is_on_hold:
            self._tell(spare_maker.GO_ON)
        self.is_on_hold = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """On hold in this block, however it ends."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def take(self, plan: Plan) -> Engines | None:
        """The spare set, running, if it is ready and what is asked for. Afterwards there is none."""
        engines = None
        if self.is_ready() and (self._order.plan, self._surroundings) == (plan, _surroundings()):
            for process in keeper.noted(self._order.folder / spare_maker.READY):
                if process is not None:
                    process.resume()
            engines = Engines.attach(plan, self._order.folder)
        if engines is None:
            self.discard()
        self._forget()
        return engines

    def discard(self) -> None:
        """End it, ready or not."""
        if self._order is not None:
            keeper.end_processes(self._order.folder, grace=0.0)
            shutil.rmtree(self._order.folder, ignore_errors=True)
        self._forget()

    def _tell(self, word: bytes) -> None:
        if self._maker is None:
            return
        try:
            os.write(self._maker.stdin.fileno(), word)
        except BrokenPipeError:  # its work is done, or it has failed
            if self.is_ready():
                self._let_go_of_maker()
            else:
                self.discard()

    def _forget(self) -> None:
        self._let_go_of_maker()
        self._order = None

    def _let_go_of_maker(self) -> None:
        if self._maker is not None:
            self._maker.stdin.close()
            self._maker.kill()
            self._maker.wait(5)
            self._maker = None


def _end_other(engines: Engines) -> None:
    """The spare set of the notebook that had these engines before."""
    name = engines.folder / keeper.SPARE
    if name.exists():
        processes.end_lab(name.read_text(), grace=0.0)


def _is_wanted(plan: Plan) -> bool:
    here = plan.launcher == "mpiexec" and not plan.hosts
    return here and plan.ranks <= PER_CORE * (os.cpu_count() or 1) and os.environ.get(SPARE, "1") != "0"


def _surroundings() -> tuple:
    """What ranks inherit from this process; with another environment they would be other ranks."""
    return dict(os.environ), os.getcwd()
