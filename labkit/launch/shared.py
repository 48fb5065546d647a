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
from labkit.launch import Plan, keeper, living, private, runtime
from labkit.launch.cluster import START_DEADLINE
from labkit.launch.engines import Engines, this_notebook
from labkit.launch.ranks import Rank
from labkit.launch.runtime import RUNTIME, with_room

SERVER = "LABKIT_SERVER"
TURN_DEADLINE = 2 * START_DEADLINE
"""Seconds that a notebook waits for others of the server that start."""
BEATS = 1.0
"""A running cell touches the file of its holder more often than once in so many seconds."""
_CARD = "lab.json"

UnderWay = Callable[[Path], str]
"""Where ranks of the lab in that folder are in a cell, as "line 3: ..."; "" if none is in any."""


def is_shared() -> bool:
    """Whether labs here belong to a JupyterLab server."""
    return living.told(os.environ.get(SERVER, "")) != psutil.STATUS_DEAD


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Notebooks of a server that start at once take turns: the first makes the lab, the others find it."""
    if not is_shared():
        yield
        return
    with with_room():
        folder = os.open(runtime.folder(), os.O_RDONLY)
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


def find(plan: Plan, under_way: UnderWay | None = None) -> tuple[Engines, tuple[Rank, ...]] | None:
    """The server's running lab, if it is of that plan; one of another plan is ended.

    With `under_way`, LabError if that would end a cell of another notebook.
    """
    if not is_shared():
        return None
    for folder, told in _cards():
        if under_way:
            require_leave(folder, plan, under_way)
        if told["plan"] == repr(plan):
            engines = Engines.attach(plan, folder)
            if engines is not None:
                return engines, tuple(Rank(**facts) for facts in told["ranks"])
        Engines(plan, folder).stop()  # one lab per server
    return None


def new(plan: Plan, spare: Callable[[Plan], Engines | None]) -> Engines:
    """A new lab, the server's if there is one; `spare` gives engines that were prepared, if there are any."""
    owner = os.environ[SERVER] if is_shared() else living.identity(psutil.Process())
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


def status() -> dict[str, Any]:
    """This server's lab for its status bar: ranks, state (none, gone, ready or busy), owner, since when."""
    for folder, told in _cards() if is_shared() else ():
        holder = _told(folder / keeper.HOLDER)
        busy = keeper.idle_for(folder / keeper.HOLDER) < BEATS
        state = ("busy" if busy else "ready") if keeper.all_vital_live(folder) else "gone"
        owner, since = holder.get("name", ""), _clock(holder["at"]) if holder else ""
        return {"ranks": len(told["ranks"]), "state": state, "owner": owner, "since": since}
    return {"ranks": 0, "state": "none", "owner": "", "since": ""}


def end_all() -> None:
    """End this server's labs, whoever has them."""
    for folder, _ in _cards() if is_shared() else ():
        keeper.end(folder)


def take(folder: Path) -> None:
    """Note that this notebook has the lab now."""
    if is_shared():
        me = {"pid": os.getpid(), "name": this_notebook(), "at": time.time(), "process": _me()}
        with suppress(LabError):  # it has just been ended: the next look at it tells
            private.write(folder / keeper.HOLDER, json.dumps(me))


def require_leave(folder: Path, plan: Plan, under_way: UnderWay) -> None:
    """LabError if another notebook, whose kernel lives, runs a cell on that lab."""
    told = _told(folder / keeper.HOLDER) if is_shared() else {}
    if told.get("process", _me()) == _me() or not living.is_alive(living.parse(told["process"])):
        return
    place = under_way(folder)
    if place:
        raise LabError(
            f"{plan.ranks} ranks",
            f"{told['name']} has had them since {_clock(told['at'])}, and runs a cell on them: {place}",
            f"wait for its end, or end it: labkit.start({plan.ranks}, take=True)",
        )


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
        raise LabError(
            "a cell on the ranks of this notebook",
            f"{told['name']} has had them since {_clock(told['at'])}",
            "labkit.start() takes them back",
        )
    with suppress(FileNotFoundError):
        os.utime(folder / keeper.HOLDER)  # an idle lab is ended after a while


def _me() -> str:
    return living.identity(psutil.Process())


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(seconds))


def _told(file: Path) -> dict[str, Any]:
    """What such a file says; nothing if it is gone, or was torn by a full disk."""
    with suppress(OSError, ValueError):
        told = json.loads(file.read_text())
        return told if isinstance(told, dict) else {}
    return {}
