"""A lab from its ranks' start to their end: found, new or replaced, taken over, required, stopped."""

from __future__ import annotations

import atexit
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import ipyparallel as ipp
import psutil

from labkit import LabError, launch
from labkit.lab import remote
from labkit.launch import cause_of_death, keeper, living, shared
from labkit.launch.engines import Engines
from labkit.launch.interrupts import interrupts_held
from labkit.launch.ranks import Rank
from labkit.launch.spare import Spare
from labkit.launch.stopped import Stopped
from labkit.rank.protocol import Leftover

if TYPE_CHECKING:
    from typing_extensions import Self


class Lifecycle:
    """Ranks of `plan` that start, are replaced and stop. `ranks` has the facts of those that live."""

    def __init__(self, plan: launch.Plan, take: bool = False) -> None:
        self.plan = plan
        self.ranks: tuple[Rank, ...] = ()
        self.spare = Spare()
        self._engines: Engines | None = None
        self._ended = ""
        self._stopped = Stopped()
        self._start(take)

    @property
    def client(self) -> ipp.Client:
        """The ipyparallel client behind the views."""
        if self._engines is None:
            raise LabError("the ranks of this lab", self._ended, "lab.restart()")
        return self._engines.client

    @property
    def folder(self) -> Path:
        """Where what belongs to the running lab is, which nobody else enters."""
        if self._engines is None:
            raise LabError("the folder of this lab", self._ended, "lab.restart()")
        return self._engines.folder

    def is_running(self) -> bool:
        """Whether every rank lives, and can be reached."""
        return self._engines is not None and psutil.STATUS_DEAD not in map(
            living.told, self._needed().values()
        )

    def require_running(self) -> None:
        """LabError if the lab is stopped, has lost a rank, or is another notebook's by now."""
        self.require_alive()
        shared.require_mine(self._engines.folder)

    def require_alive(self) -> None:
        """LabError if the lab is stopped, or has lost a rank; then the others are ended."""
        if self._engines is None:
            raise LabError("a cell on the ranks", self._ended, "lab.restart()")
        needed = self._needed()
        do = {name: living.told(identity) for name, identity in needed.items()}
        if psutil.STATUS_DEAD not in do.values():
            self._stopped.refuse({name: needed[name] for name in do if do[name] == psutil.STATUS_STOPPED})
            return
        folder = self._engines.folder
        cause = shared.ended_elsewhere(folder) or cause_of_death.cause_of_death(self.plan, folder, self.ranks)
        self._end()
        self._ended = f"{cause.split(': ')[0]}, as was said before"
        raise LabError("a cell on the ranks", cause, "lab.restart(); what cells defined is lost")

    def take_over(self) -> None:
        """Make the ranks this notebook's: whatever they run is interrupted, their namespaces are emptied.

        New ranks take the place of those that hear no interrupt.
        """
        shared.take(self._engines.folder)
        if not remote.make_idle(self):
            self.restart()
            return
        self.recover()
        remote.call(self, "clean", asked="empty namespaces")
        self._changed()

    def restart(self, ranks: int | None = None, *, take: bool = False) -> Self:
        """Replace the ranks by new ones, of another count if asked. What cells defined is lost.

        LabError if another notebook runs a cell on them, which only `take=True` ends.
        """
        plan = self.plan if ranks is None else launch.resized(self.plan, ranks)
        if not take:
            self.require_leave()
        self._end()
        self.plan = plan
        self._start(take)
        return self

    def require_leave(self) -> None:
        """LabError if another notebook runs a cell on the ranks."""
        if self._engines is not None:
            shared.require_leave(self._engines.folder, self.plan, remote.under_way)

    def interrupt(self, targets: Collection[int] | None = None) -> None:
        """Raise KeyboardInterrupt in what these ranks run (default: all). Idle ranks ignore it."""
        remote.interrupt(self, targets)

    def recover(self) -> None:
        """Make the process group usable again after an interrupt, on every rank at once."""
        self.settle(everything=True, rejoin=False)

    def settle(self, everything: bool, rejoin: bool, stuck: bool = False) -> tuple[Leftover, ...]:
        """Have nothing under way for which nobody waits, on every rank at once, and tell what it was.

        With `everything` also what some rank gave up. `rejoin`: make the process group anew. `stuck`: nothing
        was moving any more, so there is no use in waiting for it.
        """
        asked = "a process group that is usable again"
        return tuple(sum(remote.call(self, "settle", everything, rejoin, stuck, asked=asked), []))

    def stop(self) -> None:
        """End every process of this lab. A second call does nothing."""
        self.spare.discard()
        self._end()
        atexit.unregister(self.stop)
        self._changed()

    def _end(self) -> None:
        """End the ranks; the spare ones stay."""
        with interrupts_held():
            engines, self._engines = self._engines, None
            self._ended = "this lab is stopped"
            if engines is not None:
                engines.stop()

    def _start(self, take: bool = False) -> None:
        with shared.one_at_a_time():
            found = shared.find(self.plan, None if take else remote.under_way)
            if found:
                self._engines, self.ranks = found
            else:
                self._start_new()
        if not shared.is_shared():
            atexit.unregister(self.stop)  # a restart must not register it twice
            atexit.register(self.stop)
        if found:
            self.take_over()
        self._changed()
        with suppress(OSError):  # spare ranks are a luxury
            self.spare.prepare(self.plan, self._engines, tuple(r.pid for r in self.ranks))

    def _start_new(self) -> None:
        self.ranks, self._engines = (), shared.new(self.plan, self.spare.take)
        try:
            told = remote.call(self, "describe", asked=f"{self.plan.ranks} ranks")
            self.ranks = tuple(Rank(**facts) for facts in told)
            numbers = [r.rank for r in self.ranks]
            if numbers != self.client.ids:  # ipyparallel requests engine i for rank i, but may be refused
                found = f"engines {self.client.ids} are ranks {numbers}"
                raise LabError("engine i to be rank i", found, "start again")
            shared.publish(self._engines.folder, self.plan, self.ranks)
        except BaseException:
            self.stop()
            raise

    def _needed(self) -> dict[str, str]:
        """The identity of what must live here, by name. With a rank elsewhere mpiexec ends."""
        ranks = () if self.plan.is_remote else self.ranks
        return keeper.watched(self.folder) | {str(r): r.identity for r in ranks}

    def _changed(self) -> None:
        """What is to be done when the ranks are others, or empty again, or none."""
