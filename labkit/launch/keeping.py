"""Who sees to it that a lab always has a living keeper, which is started first and ended last.

The keeper watches the controller, among others, and the controller's process watches the keeper: whichever is
killed or stopped, the other does what is to be done, though the notebook may be gone by then. Where ranks are
forked their server watches it, too, and acts later than the controller would.
"""

import math
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from labkit import LabError
from labkit.launch import keeper, living, processes

LOOK_AFTER = 1.0
"""Seconds between two looks at whether the keeper lives."""


class Keeping:
    """The keeper of the lab of `folder`, with ranks on `hosts` if they are not here."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = ()) -> None:
        self._folder, self._hosts = folder, hosts
        self._begun: list[subprocess.Popen] = []
        self._missed = math.inf

    def start(self) -> None:
        """A keeper, from now on."""
        command = ["labkit.launch.keeper", self._folder.name, str(self._folder), *self._hosts]
        started = processes.begin(command, self._folder.name)
        self._begun.append(started)
        keeper.note(self._folder / keeper.SELF, living.identity(psutil.Process(started.pid)))

    def look(self, patience: float = 0.0) -> bool:
        """Start another in its place if it has been gone or stopped for that many seconds.

        Whether to look again: not once the lab is being ended on purpose, nor where there never was a keeper.
        """
        if (self._folder / keeper.GONE).exists() or not (self._folder / keeper.SELF).exists():
            return False
        there = [p for p in keeper.noted(self._folder / keeper.SELF) if living.is_alive(p)]
        # Those that could not be noted, on a full disk, are keepers, too. What has ended is reaped by it.
        there += [psutil.Process(begun.pid) for begun in self._begun if begun.poll() is None]
        if not all(map(living.is_stopped, there)):
            self._missed = math.inf
            return True
        self._missed = min(self._missed, time.monotonic())
        if time.monotonic() - self._missed >= patience:
            with suppress(OSError, LabError, psutil.Error):  # the lab is just being ended elsewhere
                for stopped in there:
                    stopped.kill()
                self.start()
        return True

    def end(self) -> None:
        """For good, after all else: it alone has a line to other hosts, and outlives the owner."""
        keepers = processes.of_lab(self._folder.name, module="labkit.launch.keeper")
        processes.end(keepers, grace=keeper.HOST_DEADLINE + 2.0)
        for child in self._begun:
            child.wait(5)


def watch(folder: str, hosts: tuple[str, ...]) -> None:
    """From now on, in a thread of this process."""
    keeping = Keeping(Path(folder), hosts)

    def look() -> None:
        while keeping.look():
            time.sleep(LOOK_AFTER)

    threading.Thread(target=look, name="labkit-keeper-watch", daemon=True).start()
