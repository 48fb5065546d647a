"""A lab that outlives its notebook: one per JupyterLab server, held by the notebook that called start last.

`labkit lab` names itself in LABKIT_SERVER, which its kernels inherit. Then a lab belongs to the
server: a kernel that calls `start` adopts it, ready at once, and a kernel that ends leaves it running.
Without that variable a lab belongs to its kernel and ends with it.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from labkit import LabError
from labkit.launch import Plan, keeper, private, processes
from labkit.launch.engines import RUNTIME, START_DEADLINE, Engines, this_notebook, with_room
from labkit.launch.ranks import Rank

SERVER = "LABKIT_SERVER"
TURN_DEADLINE = 2 * START_DEADLINE
"""Seconds that a notebook waits for others of the server that start."""
_CARD = "lab.json"


def is_shared() -> bool:
    """Whether labs here belong to a JupyterLab server."""
    return processes.parse(os.environ.get(SERVER, "0 0")) is not None


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Notebooks of a server that start at once take turns: the first makes the lab, the others find it."""
    if not is_shared():
        yield
        return
    with with_room():
        folder = os.open(private.folder(RUNTIME), os.O_RDONLY)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(descriptor: int) -> None:
    """Whoever has it lets go of it by ending, too."""
    deadline = time.monotonic() + TURN_DEADLINE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                found = f"another notebook has been starting one for {TURN_DEADLINE:.0f} s"
                raise LabError("a lab", found, "interrupt it there, then start again") from None
        time.sleep(0.05)


def find(plan: Plan) -> tuple[Engines, tuple[Rank, ...]] | None:
    """The server's running lab, if it is of that plan; one of another plan is ended."""
    if not is_shared():
        return None
    for folder, told in _cards():
        if told["plan"] == repr(plan):
            engines = Engines.attach(plan, folder)
            if engines is not None:
                return engines, tuple(Rank(**facts) for facts in told["ranks"])
        Engines(plan, folder).stop()  # one lab per server
    return None


def new(plan: Plan, spare: Callable[[Plan], Engines | None]) -> Engines:
    """A new lab, the server's if there is one; `spare` gives engines that were prepared, if there are any."""
    owner = os.environ[SERVER] if is_shared() else processes.identity(psutil.Process())
    engines = spare(plan)
    if engines is None:
        return Engines.start(plan, owner)
    engines.belong_to(owner)
    return engines


def publish(folder: Path, plan: Plan, ranks: tuple[Rank, ...]) -> None:
    """From now on other notebooks of the server find this lab, which is ready."""
    if is_shared():
        take(folder)
        told = {"server": os.environ[SERVER], "plan": repr(plan), "ranks": [asdict(rank) for rank in ranks]}
        private.write(folder / _CARD, json.dumps(told))


def _cards() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders of this server's labs that are ready, and what their cards tell."""
    for card in RUNTIME.glob(f"*/{_CARD}"):
        told = _told(card) if private.is_mine(card.parent) else {}
        if told.get("server") == os.environ[SERVER]:
            yield card.parent, told


def take(folder: Path) -> None:
    """Note that this notebook has the lab now."""
    if is_shared():
        me = {"pid": os.getpid(), "name": this_notebook(), "at": time.time()}
        with suppress(LabError):  # it has just been ended: the next look at it tells
            private.write(folder / keeper.HOLDER, json.dumps(me))


def ended_elsewhere(folder: Path) -> str:
    """Who ended the lab of that folder, which is removed only on purpose; "" if it is there."""
    if folder.exists():
        return ""
    holders = (_told(other / keeper.HOLDER) for other, _ in _cards()) if is_shared() else ()
    new = next((holder["name"] for holder in holders if holder), "")
    return f"{new} has new ones in their place" if new else "they were ended by `labkit stop`, or elsewhere"


def require_mine(folder: Path) -> None:
    """LabError if another notebook has taken the lab; else note that it is in use."""
    if not is_shared():
        return
    told = _told(folder / keeper.HOLDER)
    if not told:  # nobody can say who has it
        take(folder)
    elif told["pid"] != os.getpid():
        since = time.strftime("%H:%M", time.localtime(told["at"]))
        raise LabError(
            "a cell on the ranks of this notebook",
            f"{told['name']} has had them since {since}",
            "labkit.start() takes them back",
        )
    with suppress(FileNotFoundError):
        os.utime(folder / keeper.HOLDER)  # an idle lab is ended after a while


def _told(file: Path) -> dict[str, Any]:
    """What such a file says; nothing if it is gone, or was torn by a full disk."""
    with suppress(OSError, ValueError):
        told = json.loads(file.read_text())
        return told if isinstance(told, dict) else {}
    return {}
