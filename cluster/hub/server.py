"""A learner's server, as JupyterHub starts it: when there is room, in a place of its own, within limits."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Integer, Unicode
from traitlets.config import SingletonConfigurable

from cluster.hub import apart, limits
from cluster.hub.room import GB, Room

LOOK_EVERY = 5.0
"""Seconds between two looks at a learner's memory, where the kernel does not limit it."""
BEGIN = 'mkdir -p course && cd / && exec "$@"'
"""The folder in each home for the lessons is made as the learner, who could have put a link there. The server
runs where nothing is the learner's: Python and Jupyter look for modules and settings where they begin."""


class Machine(SingletonConfigurable):
    """What the hub has to give."""

    places = Integer(0, help="Learners that can work at the same time; 0: as many as the memory holds").tag(
        config=True
    )
    place = Integer(12 * GB // 5, help="Bytes that a learner takes with a lab and all lessons open").tag(
        config=True
    )
    _room: Room | None = None

    @property
    def room(self) -> Room:
        if self._room is None:
            self._room = Room.of_this_machine(self.places, self.place)
        return self._room


class LearnersServer(LocalProcessSpawner):
    """JupyterLab of one learner, with the lab that its notebooks share."""

    homes = Unicode("", help="Folder of made-up learners' homes; without it learners have accounts").tag(
        config=True
    )
    shared = Unicode("", help="Folder in which each learner has one for what the teacher may see").tag(
        config=True
    )
    teachers = Unicode("teachers", help="Group of the accounts of teachers").tag(config=True)
    process_limit = Integer(1000, help="Processes and threads that a learner may have").tag(config=True)

    _group: limits.Group | None = None
    _look: asyncio.Task | None = None
    _comes: asyncio.Task | None = None
    _emptied: asyncio.Future | None = None

    @property
    def room(self) -> Room:
        return Machine.instance(config=self.config).room

    @property
    def home(self) -> Path:
        return Path(self.homes, self.user.name) if self.homes else Path(pwd.getpwnam(self.user.name).pw_dir)

    @property
    def _limits(self) -> limits.Limits:
        return limits.Limits(self.mem_limit or 0, self.cpu_limit or 0, self.process_limit)

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """What the learner's programs are told of the home; what a lab has while it runs is in memory."""
        shell = "/bin/sh" if self.homes else pwd.getpwnam(self.user.name).pw_shell
        told = {"USER": self.user.name, "HOME": str(self.home), "SHELL": shell}
        told |= {"JUPYTER_RUNTIME_DIR": "/tmp/jupyter", "LABKIT_CLASS": str(self._drop() or "")}
        return env | {name: value for name, value in told.items() if value}

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """What the new process does before it becomes the server: `apart` makes it the learner's."""

        def begin() -> None:
            if self._group:
                self._group.join()
            os.umask(0o022)
            Path("/proc/self/oom_score_adj").write_text("500")  # the hub itself is ended last

        return begin

    async def start(self) -> tuple[str, int]:
        """Wait for a place, then start."""
        await self.room.turn(self._log_name)
        home, account = self.home, "" if self.homes else self.user.name
        if not account:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        drop = self._drop()
        if drop and not drop.exists():
            drop.mkdir(mode=0o700)
            if account:  # what the learner puts there is of the teachers' group
                shutil.chown(drop, account, self.teachers)
                drop.chmod(0o2750)
        if os.geteuid() == 0 and limits.can_group():
            self._group = limits.Group(f"hub-{os.getpid()}-{self.user.name}", self._limits)
        hidden = [home.parent, *(Path(path) for path in (os.environ["LABKIT_HUB"], self.shared) if path)]
        place = apart.command(
            home,
            account=account,
            hidden=hidden,
            writable=[drop] if drop else [],
            room=(self.mem_limit or 0) // 4,
        )
        labkit = [sys.executable, "-s", "-m", "labkit.commands", "lab", str(home / "course")]
        self.cmd = [*place, "sh", "-c", BEGIN, "sh", *labkit]
        logs = Path(os.environ["LABKIT_HUB"], "log")
        logs.mkdir(mode=0o700, exist_ok=True)
        with open(logs / self.user.name, "w") as log:
            self.popen_kwargs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            started = await super().start()
        self._comes = asyncio.create_task(self._come_up())
        if self._group is None and self.mem_limit:
            self._look = asyncio.create_task(self._keep_within(self.mem_limit))
        await self._has_its_port()
        return started

    async def stop(self, now: bool = False) -> None:
        """End the server, and wait until the kernel has ended all in its place."""
        await super().stop(now)
        if self._emptied:
            await self._emptied

    async def progress(self) -> AsyncIterator[dict]:
        """What the learner reads while it starts: where in the queue, if there is one."""
        said = ""
        while self._spawn_pending:
            told = self.room.told(self._log_name) or "Your server starts."
            if told != said:
                said = told
                yield {"progress": 10 if "queue" in told else 50, "message": told}
            await asyncio.sleep(0.5)

    def clear_state(self) -> None:
        """The server is gone: its place is free."""
        super().clear_state()
        self.room.leave(self._log_name)
        if self._look:
            self._look.cancel()
            self._look = None
        if self._group:
            self._emptied = asyncio.ensure_future(_remove(self._group))
            self._group = None

    async def _signal(self, sig: int) -> bool:
        """To the server itself; bubblewrap, which holds its place, would end both at once."""
        if sig in (signal.SIGINT, signal.SIGTERM):
            inside = limits.tree(self.pid)[2:3]  # bubblewrap, the place's first process, the server
            for server in inside:
                try:
                    server.send_signal(sig)
                    return True
                except psutil.Error:
                    break  # it has just ended
        return await super()._signal(sig)

    async def _has_its_port(self) -> None:
        """Wait until the learner's own server listens: another learner could have taken its port."""
        while await self.poll() is None:
            if await asyncio.to_thread(limits.listens, self.pid, self.port):
                return
            await asyncio.sleep(0.2)
        raise RuntimeError(f"the server of {self.user.name} ended before it listened: see its log")

    async def _come_up(self) -> None:
        while self._spawn_pending:
            await asyncio.sleep(0.2)
        self.room.is_up(self._log_name)

    async def _keep_within(self, limit: int) -> None:
        while self.pid:
            await asyncio.sleep(LOOK_EVERY)
            used = await asyncio.to_thread(lambda: limits.memory(limits.tree(self.pid)[2:]))
            if ended := limits.end_largest(used, limit):
                self.log.warning("%s takes more than %.1f GB: ended %s", self._log_name, limit / GB, ended)

    def _drop(self) -> Path | None:
        """The folder for what this learner shares with the teacher."""
        return Path(self.shared, self.user.name) if self.shared else None


async def _remove(group: limits.Group) -> None:
    """As soon as nothing runs in it any more; what the kernel ends takes a moment to go."""
    for _ in range(100):
        if group.remove():
            return
        await asyncio.sleep(0.1)
