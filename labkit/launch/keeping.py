"""A lab's side of its keeper: started first, replaced when it is killed or stopped, ended last."""

import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from labkit import LabError
from labkit.launch import keeper, living, processes

MISSED_AFTER = 1.0
"""Seconds between two looks at whether the keeper lives."""


class Keeping:
    """That the lab of `folder`, with ranks on `hosts` if they are not here, always has a living keeper."""

    def __init__(self, folder: Path, hosts: tuple[str, ...]) -> None:
        self._folder, self._hosts = folder, hosts
        self._begun: list[subprocess.Popen] = []
        self._ended = threading.Event()

    def start(self) -> None:
        """A keeper, from now on."""
        command = ["labkit.launch.keeper", self._folder.name, str(self._folder), *self._hosts]
        started = processes.begin(command, self._folder.name)
        self._begun.append(started)
        keeper.note(self._folder / keeper.SELF, living.identity(psutil.Process(started.pid)))

    def watch(self) -> None:
        """And another in its place as soon as it is gone or stopped, for as long as the lab runs."""
        threading.Thread(target=self._replace, name="labkit-keeper-watch", daemon=True).start()

    def _replace(self) -> None:
        while not self._ended.wait(MISSED_AFTER):
            if (self._folder / keeper.GONE).exists() or not keeper.all_vital_live(self._folder):
                return
            there = [p for p in keeper.noted(self._folder / keeper.SELF) if living.is_alive(p)]
            if all(map(living.is_stopped, there)):
                with suppress(OSError, LabError, psutil.Error):  # the lab is just being ended elsewhere
                    for stopped in there:
                        stopped.kill()
                    self.start()

    def end(self) -> None:
        """For good, after all else: it alone has a line to other hosts, and outlives the owner."""
        self._ended.set()
        keepers = processes.of_lab(self._folder.name, module="labkit.launch.keeper")
        processes.end(keepers, grace=keeper.HOST_DEADLINE + 2.0)
        for child in self._begun:
            child.wait(5)
